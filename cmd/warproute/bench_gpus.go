package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// addGPUs adds the flag that says how many GPUs are measured together.
func addGPUs(cmd *cobra.Command, gpus *int) {
	cmd.Flags().IntVar(gpus, "gpus", 1, "GPUs that workers are spread over by turns, up to one a worker; for --engine gpu")
}

// addShadow adds the flag for shadow mode.
func addShadow(cmd *cobra.Command, every *int) {
	cmd.Flags().IntVar(every, "shadow", 0, "repeat one in so many chunks of a GPU on the CPU and compare; 0 is none")
}

// checkGPUs checks it; another engine has none. Which engines there are, and how many workers
// there may be, is checked elsewhere.
func checkGPUs(cmd *cobra.Command, engine string, gpus *int, workers int) error {
	switch {
	case engine == "gpu" && *gpus > max(1, workers):
		return fmt.Errorf("--gpus %d: each takes a worker of its own; set --workers %d or more", *gpus, *gpus)
	case engine == "gpu":
		return checkNumbers(number{"gpus", *gpus, 1, maxWorkers})
	case engine == "cpu" && cmd.Flags().Changed("gpus"):
		return fmt.Errorf("--gpus is for --engine gpu: leave it out")
	}
	*gpus = 0
	return nil
}
