package main

import (
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/control/doctor"
)

func newDoctorCommand() *cobra.Command {
	var ports []string
	var asJSON, try bool
	c := &cobra.Command{
		Use:   "doctor [--port IFACE]...",
		Short: "Tell what will work on this host, and the mend of what will not",
		Long: `Look at the kernel, permissions, memory, cores and GPU, and at the interfaces
named by --port, without changing a setting. Ports of veth and virtio_net are opened
for a moment, to learn their XDP mode; others with --try, because some drivers reset the
link for seconds then. Exits with 1 if a router would not start.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			host, err := doctor.This()
			if err != nil {
				return err
			}
			host.TryAll = try
			found := doctor.Examine(host, ports)
			if asJSON {
				enc := json.NewEncoder(c.OutOrStdout())
				enc.SetIndent("", "  ")
				err = enc.Encode(found)
			} else {
				err = doctor.Write(c.OutOrStdout(), found)
			}
			if err == nil && !doctor.Healthy(found) {
				return reported(errors.New("a router would not start here"))
			}
			return err
		},
	}
	c.Flags().StringArrayVarP(&ports, "port", "p", nil, "look at interface `IFACE` too")
	c.Flags().BoolVar(&try, "try", false, "open every port for a moment to learn its XDP mode; may reset links")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
