package main

import (
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/control/doctor"
)

func newDoctorCommand() *cobra.Command {
	var ports []string
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor [--port IFACE]...",
		Short: "Tell what will work on this host, and the mend of what will not",
		Long: `Look at the kernel, permissions, memory, cores and GPU, and at the interfaces
named by --port, without changing anything. Exits with 1 if a router would not start.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			host, err := doctor.This()
			if err != nil {
				return err
			}
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
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
