package main

import (
	"github.com/spf13/cobra"

	"github.com/warproute/warproute/internal/cli"
)

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "warproute-bench",
		Short: "Measure warproute and generate traffic",
		Long: `warproute-bench measures the parts of warproute and the whole, compares it with Linux,
DPDK and bart, and generates traffic. Results are verified before anything is timed.

  warproute-bench demo                         route real packets through namespaces
  warproute-bench forward                      forwarding rate on memory ports
  warproute-bench load                         latency and loss under load
  warproute-bench gen --port eth1 --dst ADDR   send traffic and measure loss and latency`,
	}
	root.AddGroup(
		&cobra.Group{ID: "measure", Title: "Measure:"},
		&cobra.Group{ID: "plot", Title: "Plot:"},
		&cobra.Group{ID: "traffic", Title: "Generate traffic:"},
	)
	for group, commands := range map[string][]*cobra.Command{
		"measure": {
			profiled(newForwardCommand()), profiled(newIPsecCommand()), profiled(newLoadCommand()), profiled(newExpressCommand()), profiled(newChoiceCommand()), newLatencyCommand(), cli.Interruptible(newLookupCommand()),
			cli.Interruptible(newChurnCommand()), cli.Interruptible(newVethCommand()), cli.Interruptible(newTenantCommand()), newLadderCommand(),
		},
		"plot":    {newReportCommand()},
		"traffic": {cli.Interruptible(newGenCommand()), cli.Interruptible(newDemoCommand())},
	} {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	return cli.Root(root)
}
