package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// addGPUs adds the flag that says how many GPUs are measured together.
func addGPUs(cmd *cobra.Command, gpus *int) {
	cmd.Flags().IntVar(gpus, "gpus", 1, "GPUs that workers are spread over by turns, up to one a worker; for --engine gpu")
}

// checkGPUs checks it; another engine has none. How many workers there may be is checked
// elsewhere.
func checkGPUs(cmd *cobra.Command, engine string, gpus *int, workers int) error {
	if engine == "gpu" {
		return checkNumbers(number{"gpus", *gpus, 1, max(1, workers)})
	}
	*gpus = 0
	if cmd.Flags().Changed("gpus") {
		return fmt.Errorf("--gpus is for --engine gpu: leave it out")
	}
	return nil
}
