package main

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/doctor"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/cli"
	"github.com/warproute/warproute/internal/placement"
)

func newDoctorCommand() *cobra.Command {
	var ports []string
	var file string
	var asJSON, try bool
	c := &cobra.Command{
		Use:   "doctor [--config FILE] [--port IFACE]...",
		Short: "Check this host and suggest fixes",
		Long: `Check the kernel, permissions, memory, cores and GPU of this host, and the interfaces named
by --port, without changing a setting. With --config, it checks a configuration as "warproute
check" does, whether the user of the router can read its files, whether this process may use its
cores, whether Linux can have the SAs of ipsec.source: xfrm (it may load modules), and reports
why each interface of this host is a port or is not. Ports of veth and virtio_net are opened
briefly to find their XDP mode. Other ports are opened only with --try, because some drivers then
reset the link for seconds. The exit code is 1 if the router would not start, and 78 if the
configuration is invalid: then nothing else is checked.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			host, err := doctor.ThisHost()
			if err != nil {
				return err
			}
			host.TryAll = try
			selected, files, err := examineFile(file, host)
			if err != nil {
				return err
			}
			found := doctor.Examine(host, append(doctor.TakenPorts(selected), ports...))
			found = append(append(found, files...), doctor.Selected(selected)...)
			if out := c.OutOrStdout(); asJSON {
				err = cli.WriteJSON(out, found)
			} else {
				var text strings.Builder
				if err = doctor.Write(&text, found); err == nil {
					_, err = io.WriteString(out, cli.ColorLevels(out, text.String()))
				}
			}
			if err == nil && !doctor.Healthy(found) {
				return cli.Printed(errors.New("the router would not start"))
			}
			return err
		},
	}
	c.Flags().StringVarP(&file, "config", "c", "", "check a configuration `FILE`, and its ports")
	c.Flags().StringArrayVarP(&ports, "port", "p", nil, "check interface `IFACE` as well; repeatable")
	c.Flags().BoolVar(&try, "try", false, "open every port briefly to find its XDP mode; can reset links")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cli.CompletePorts(c, "port")
	c.MarkFlagFilename("config", "yaml", "yml")
	return c
}

// examineFile returns the interfaces of this host with the decisions of a configuration file, and what is wrong with it here: its
// values, whether the router can read its files, and whether Linux has the ESP that it needs; nothing without a file. It sets
// host.NeedsGPU and host.Placement, by which Examine checks the GPU and the cores.
func examineFile(file string, host *doctor.Host) ([]config.Selection, []doctor.Finding, error) {
	if file == "" {
		return nil, nil, nil
	}
	cfg, err := config.Load(file)
	if err != nil {
		return nil, nil, cli.ConfigError(err)
	}
	defer cfg.IPsec.Zero()
	selected, err := cfg.SelectHost()
	host.NeedsGPU = cfg.Engine == config.EngineGPU
	usable, usableErr := affinity.Usable(cfg.Cores)
	host.Placement = placement.Request{Workers: cfg.Workers, Allowed: usable, Cores: cfg.Cores}
	err = errors.Join(err, usableErr)
	return selected, slices.Concat(doctor.Configuration(cfg), doctor.Files(cfg), doctor.ESP(cfg)), err
}
