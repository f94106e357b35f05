package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/cli"
)

func newReloadCommand() *cobra.Command {
	q, dryRun := new(queryFlags), false
	c := &cobra.Command{
		Use:   "reload [--dry-run]",
		Short: "Apply configuration changes to the running router",
		Long: `Make the running router read its configuration file again, print the differences, and
apply all of them or none. Packets that no change concerns are not lost. SIGHUP does the same.

These keys can change while the router runs:

  batch                   from the next chunk on (with a GPU, max_packets above
                          1,024 and its value at the start needs a restart)
  busy_poll               unless a port is zero-copy
  cores                   unless napi is thread
  icmp                    limits start again
  metrics                 the new address is served before the old one closes
  status.listen           the same
  log.level               at once
  ports                   names, patterns and exclusions, without effect on other ports; a
                          named port that cannot be opened is an error
  reverse_path of ports   for packets received from then on, by a GPU slightly later
  ipsec.sas, policies     SAs before the policies that refer to them; the old SPI of a
                          changed SA is accepted for 2 s more

Everything else requires a restart: bonds, modes of ports, max_ports, engine, gpu, shadow, workers,
lanes, exit, control, privileges, napi, log.format, checksum, other keys of ipsec, and enabling
IPsec. A reload that changes any of these is refused as a whole.

Exit codes: 0 applied or nothing differs, 78 invalid configuration, 1 refused or failed.
Nothing is changed unless the code is 0.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			path := "/reload"
			if dryRun {
				path += "?dry_run=true"
			}
			var r status.Reload
			if err := socket.Post(c.Context(), q.socket, path, &r); err != nil {
				return err
			}
			out := c.OutOrStdout()
			if !q.json {
				if err := status.WriteReload(out, r); err != nil {
					return err
				}
				return reloadError(&r)
			}
			if err := cli.WriteJSON(out, r); err != nil {
				return err
			}
			return cli.Printed(reloadError(&r))
		},
	}
	q.addFlags(c)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print the differences and whether they could be applied; change nothing")
	return c
}

// reloadError returns the error of a reload that changed nothing.
func reloadError(r *status.Reload) error {
	switch {
	case r.Result == status.ReloadApplied || r.Result == status.ReloadUnchanged:
		return nil
	case len(r.Faults) > 0:
		var errs config.Errors
		for _, f := range r.Faults {
			errs = append(errs, f.Error())
		}
		return cli.WithCode(errs, cli.ExitConfig)
	case r.Result == status.ReloadInvalid:
		return cli.ConfigError(errors.New(r.Error))
	}
	return errors.New(r.Summary())
}
