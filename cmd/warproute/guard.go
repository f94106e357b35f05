package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/divert"
	"github.com/warproute/warproute/control/doctor"
	"github.com/warproute/warproute/control/guard"
	"github.com/warproute/warproute/internal/cli"
)

func newGuardCommand() *cobra.Command {
	var file string
	var ports []string
	c := &cobra.Command{
		Use:   "guard {--config FILE | --port IFACE...}",
		Short: "Block Linux's forwarding on the ports of an IPsec gateway",
		Long: `Block Linux's forwarding from and to the ports of an IPsec gateway, so that protected
packets never leave in cleartext. "warproute run" does the same before anything else. Use
this command at boot, before the interfaces are up, where Linux could forward before the
gateway starts. The interfaces need not exist yet.

Packets to and from this host pass, but for those that Linux would decrypt or encrypt.
The rules are in the nftables table "inet warproute" (nft list table inet warproute) and
stay until "warproute release", also after a gateway has stopped or was killed. Unless a
gateway runs, Linux forwards nothing from or to any VLAN, macvlan, ipvlan or MACsec
interface either ("inet warproute-start"): nobody knows which are on the ports.

A configuration without SAs, policies and source: xfrm, or with ipsec.linux_forwarding:
allow, blocks nothing.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case (file == "") == (len(ports) == 0):
				return cli.UsageError(errors.New("guard needs either --config FILE or --port IFACE"))
			case file != "":
				var gateway bool
				var err error
				if ports, gateway, err = config.GuardedPorts(file); err != nil {
					return cli.ConfigError(err)
				}
				if !gateway {
					fmt.Fprintf(c.OutOrStdout(), "%s needs no guard\n", file)
					return nil
				}
			}
			return withTable(func(t *guard.Table) error {
				if err := guardPorts(t, ports); err != nil {
					return err
				}
				fmt.Fprintf(c.OutOrStdout(), "blocked: Linux forwards nothing from or to %s, and unless a gateway runs, from or to any VLAN or macvlan\n", list(ports))
				return nil
			})
		},
	}
	c.Flags().StringVarP(&file, "config", "c", "", "guard the ports of configuration `FILE`")
	c.Flags().StringArrayVarP(&ports, "port", "p", nil, "guard interface `IFACE`; repeatable")
	c.MarkFlagFilename("config", "yaml", "yml")
	cli.CompletePorts(c, "port")
	return c
}

// guardPorts guards ports and, unless their gateway runs, all VLANs that may be on them.
func guardPorts(t *guard.Table, ports []string) error {
	if len(ports) > 0 {
		if _, err := t.Guard(ports...); err != nil {
			return err
		}
	}
	if len(doctor.Running(ports)) > 0 {
		return nil
	}
	return t.GuardStacked()
}

// guardEarly guards the ports of a gateway that cannot start yet because the host lacks
// something, such as an interface.
func guardEarly(w io.Writer, file string) {
	ports, gateway, err := config.GuardedPorts(file)
	if err == nil && gateway {
		err = withTable(func(t *guard.Table) error { return guardPorts(t, ports) })
	}
	if err != nil {
		fmt.Fprintf(w, "warproute: Linux can forward past the gateway until it starts: %v\n", err)
	}
}

func newReleaseCommand() *cobra.Command {
	var ports []string
	c := &cobra.Command{
		Use:   "release [--port IFACE]...",
		Short: "Unblock Linux's forwarding on the ports of a stopped gateway",
		Long: `Unblock Linux's forwarding on the ports of a gateway that has stopped or was killed.
Linux forwards on them again as configured (net.ipv4.ip_forward and similar), so packets
that the gateway's policies protect can leave in cleartext.

Without --port, all blocked interfaces of this network namespace are released, and Linux
transmits packets on XFRM interfaces itself again. With --port, VLANs stay blocked until the
last interface is released. Ports of a running router are refused.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return withTable(func(t *guard.Table) error {
				names, err := t.Guarded()
				if err != nil {
					return err
				}
				for _, name := range ports {
					if !slices.Contains(names, name) {
						return cli.UsageError(fmt.Errorf("release %s: not blocked; blocked interfaces: %s", name, list(names)))
					}
				}
				released := names
				if stacked, err := t.GuardsStacked(); err != nil {
					return err
				} else if stacked {
					released = append(released, "all VLANs")
				}
				if len(ports) > 0 {
					names, released = ports, ports
				}
				if running := doctor.Running(names); len(running) > 0 {
					return fmt.Errorf("release %s: a router runs on %s (stop it first)", list(names), list(running))
				}
				if err := t.Release(names...); err != nil {
					return err
				}
				if len(ports) == 0 {
					if err := divert.ClearAll(); err != nil {
						return err
					}
				}
				fmt.Fprintf(c.OutOrStdout(), "released: %s\n", list(released))
				return nil
			})
		},
	}
	c.Flags().StringArrayVarP(&ports, "port", "p", nil, "release only interface `IFACE`; repeatable")
	cli.CompletePorts(c, "port")
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
