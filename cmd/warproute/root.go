package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/dataplane/gpu"
	"github.com/warproute/warproute/internal/cli"
)

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "warproute",
		Short: "Route packets by AF_XDP, with Linux as the control plane",
		Long: `warproute forwards IPv4 and IPv6 between network interfaces, bypassing the kernel's
network stack. Linux stays the control plane for addresses, routes and neighbors:
ip route, FRR and BIRD work unchanged.

  warproute doctor --port lan0 --port wan0     check this host
  warproute run --port lan0 --port wan0        route between two interfaces
  warproute show ports                         query the running router`,
	}
	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run a router:"},
		&cobra.Group{ID: "observe", Title: "Observe a running router:"},
	)
	for group, commands := range map[string][]*cobra.Command{
		"run": {
			newDoctorCommand(), newCheckCommand(), cli.Interruptible(newRunCommand()), newReloadCommand(), newUpgradeCommand(),
			newGuardCommand(), newReleaseCommand(),
		},
		"observe": {
			newShowCommand(), cli.Interruptible(newTopCommand()), newRouteCommand(),
			cli.Interruptible(newCaptureCommand()), cli.Interruptible(newTraceCommand()),
		},
	} {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	for name, verb := range map[string]string{"bench": "forward", "gen": "gen", "demo": "demo"} {
		root.AddCommand(newMovedCommand(name, verb))
	}
	forward, gateway := gpu.Kernels()
	return cli.Root(root, cli.Object{Name: "forward.ptx", Code: forward}, cli.Object{Name: "gateway.ptx", Code: gateway},
		cli.Object{Name: "steer_bpfel.o", Code: afxdp.Program()})
}

// newMovedCommand returns a hidden command that names its successor in warproute-bench.
func newMovedCommand(name, verb string) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return cli.UsageError(fmt.Errorf("%s is in another program now: use `warproute-bench %s`", name, verb))
		},
	}
}
