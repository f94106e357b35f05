package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/bench/tenant"
	"github.com/warproute/warproute/internal/cli"
)

func newTenantCommand() *cobra.Command {
	var o tenant.Options
	var out cli.Results
	c := &cobra.Command{
		Use:   "tenant",
		Short: "Measure kernels of a process that shares the GPU",
		Long: `Launch kernels of a constant amount of work one after another, wait for each, and measure how
many complete per second. Run it alone, then beside a router with the same iterations: the
ratio is what the router leaves to other processes.

Without --iterations, the work is calibrated so that a kernel takes --kernel on the device:
this needs a GPU that does nothing else. The result of a kernel is verified first.

  warproute-bench tenant                       # alone; prints the iterations
  warproute-bench tenant --iterations 12000    # beside a router`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := cmp.Or(checkIterations(c, o), o.Check()); err != nil {
				return cli.UsageError(err)
			}
			progress := cli.NewProgress(c.ErrOrStderr())
			defer progress.Done()
			progress.Step("launch kernels for %v", o.Duration)
			r, err := tenant.Run(c.Context(), o)
			if err != nil {
				return err
			}
			progress.Done()
			writeTenant(out.Text(c), r)
			return out.Write(c, []*tenant.Result{r})
		},
	}
	f := c.Flags()
	f.DurationVar(&o.Duration, "duration", 5*time.Second, "duration of the measurement; a signal ends it earlier")
	f.DurationVar(&o.Kernel, "kernel", 200*time.Microsecond, "time of a kernel on an idle GPU")
	f.Uint32Var(&o.Iterations, "iterations", 0, "iterations per thread (default: calibrate)")
	f.IntVar(&o.Blocks, "blocks", 0, "blocks of 1,024 threads per kernel (default: as many as the GPU executes at once)")
	f.IntVar(&o.GPU, "gpu", 0, "`NUMBER` of the GPU")
	out.AddFlags(c)
	return c
}

// checkIterations returns an error for wrong uses of --iterations.
func checkIterations(c *cobra.Command, o tenant.Options) error {
	switch changed := c.Flags().Changed; {
	case changed("iterations") && o.Iterations == 0:
		return errors.New("--iterations 0: write the number that a run without this flag prints")
	case changed("iterations") && changed("kernel"):
		return errors.New("--kernel is of the calibration, which --iterations replaces")
	}
	return nil
}

func writeTenant(w io.Writer, r *tenant.Result) {
	fmt.Fprintf(w, "%s, kernels of %d blocks, %d iterations: %.1f µs on the device (shortest of 20)\n", r.GPU, r.Blocks, r.Iterations, r.Alone)
	fmt.Fprintf(w, "%d kernels in %.2f s: %.0f per second\n", r.Kernels, r.Seconds, r.Rate)
	fmt.Fprintf(w, "time per kernel, from launch to completion: p50 %.1f µs, p99 %.1f µs, max %.1f µs\n", r.P50, r.P99, r.Max)
	fmt.Fprintf(w, "the same work beside a router: warproute-bench tenant --iterations %d --blocks %d\n", r.Iterations, r.Blocks)
}
