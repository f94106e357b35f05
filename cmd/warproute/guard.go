package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/doctor"
	"github.com/warproute/warproute/control/guard"
)

func newGuardCommand() *cobra.Command {
	var file string
	var ports []string
	c := &cobra.Command{
		Use:   "guard {--config FILE | --port IFACE...}",
		Short: "Keep Linux from forwarding from and to the ports of a gateway",
		Long: `Keep Linux from forwarding packets from and to the ports of a gateway, so that what
its policies protect does not leave in cleartext. "warproute run" does the same first
of all; use this command before the interfaces are set up at boot, when Linux might
forward before the gateway starts. The interfaces need not exist.

Packets for this host and from it pass. The rules are in the table "inet warproute" of
nftables (nft list table inet warproute). They stay until "warproute release", whether
a gateway runs, has stopped or was killed.

A configuration that protects nothing, or has ipsec.linux_forwarding: allow, closes
nothing.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case (file == "") == (len(ports) == 0):
				return usageError(errors.New("guard needs --config FILE or --port IFACE, and not both"))
			case file != "":
				var err error
				if ports, err = config.GuardedPorts(file); err != nil {
					return configError(err)
				}
				if len(ports) == 0 {
					fmt.Fprintf(c.OutOrStdout(), "%s asks for no guard\n", file)
					return nil
				}
			}
			return withTable(func(t *guard.Table) error {
				if _, err := t.Guard(ports...); err != nil {
					return err
				}
				fmt.Fprintf(c.OutOrStdout(), "Linux forwards nothing from or to %s\n", strings.Join(ports, ", "))
				return nil
			})
		},
	}
	c.Flags().StringVarP(&file, "config", "c", "", "guard the ports of the configuration `FILE`")
	c.Flags().StringArrayVarP(&ports, "port", "p", nil, "guard interface `IFACE`; give each")
	c.MarkFlagFilename("config", "yaml", "yml")
	return c
}

// guardEarly guards the ports of a gateway that cannot start yet because the host lacks
// something, such as another port.
func guardEarly(w io.Writer, file string) {
	ports, err := config.GuardedPorts(file)
	if err == nil && len(ports) > 0 {
		err = withTable(func(t *guard.Table) error { _, err := t.Guard(ports...); return err })
	}
	if err != nil {
		fmt.Fprintf(w, "warproute: until the gateway starts, Linux may forward past it: %v\n", err)
	}
}

func newReleaseCommand() *cobra.Command {
	var ports []string
	c := &cobra.Command{
		Use:   "release [--port IFACE]...",
		Short: "Return the ports of a stopped gateway to Linux's forwarding",
		Long: `Return the ports of a gateway that has stopped, or was killed, to Linux's forwarding:
Linux forwards from and to them again as net.ipv4.ip_forward and its kin say. From then
on packets that the gateway's policies protect may leave in cleartext.

Without --port, all interfaces are released that a gateway of this network namespace has
closed. Ports of a running router are refused.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return withTable(func(t *guard.Table) error {
				names, err := t.Guarded()
				if err != nil {
					return err
				}
				for _, name := range ports {
					if !slices.Contains(names, name) {
						return usageError(fmt.Errorf("release %s: it is not closed; closed are: %s", name, list(names)))
					}
				}
				if len(ports) > 0 {
					names = ports
				}
				if running := doctor.Running(names); len(running) > 0 {
					return fmt.Errorf("release %s: a router runs on %s (stop it first)", list(names), list(running))
				}
				if err := t.Release(names...); err != nil {
					return err
				}
				fmt.Fprintf(c.OutOrStdout(), "released: %s\n", list(names))
				return nil
			})
		},
	}
	c.Flags().StringArrayVarP(&ports, "port", "p", nil, "release interface `IFACE` alone; give each")
	return c
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func withTable(f func(*guard.Table) error) error {
	t, err := guard.Open()
	if err != nil {
		return err
	}
	defer t.Close()
	return f(t)
}
