package main

import (
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
)

func newReloadCommand() *cobra.Command {
	a, dryRun := new(asking), false
	c := &cobra.Command{
		Use:   "reload [--dry-run]",
		Short: "Have the running router take over what changed in its configuration file",
		Long: `Reload has the running router read its configuration file again, prints what
differs, and puts it in force: all of it, or nothing. No packet is lost by it that
has nothing to do with what changes. SIGHUP does the same.

While the router runs, these can change:

  batch                   from the next chunk on (max_packets beyond that of the
                          start only without a GPU)
  busy_poll               unless a port is zero-copy
  icmp                    limits begin anew
  metrics.listen          the new address is served before the old one ends
  reverse_path of ports   for what is received from then on, by a GPU a moment later
  ipsec.sas, policies     new associations before the policies that ask for them;
                          one that gets another SPI is received by for 2 s more

Everything else takes a restart: ports and their modes, engine, shadow, workers, control, napi,
checksum, ipsec.source, state, interface, mss_clamp, fragment, icmp, path_mtu and
linux_forwarding, and beginning with IPsec. A reload with such a change is refused as a whole.

It exits with 0 when all was applied or nothing differs, with 78 when the file is
wrong, and with 1 when a change was refused or failed; then nothing was changed.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			path := "/reload"
			if dryRun {
				path += "?dry_run=true"
			}
			var r status.Reload
			if err := socket.Post(c.Context(), a.socket, path, &r); err != nil {
				return err
			}
			out := c.OutOrStdout()
			if !a.json {
				if err := status.WriteReload(out, r); err != nil {
					return err
				}
				return reloadError(&r)
			}
			enc := json.NewEncoder(out)
			enc.SetIndent("", "  ")
			if err := enc.Encode(r); err != nil {
				return err
			}
			if err := reloadError(&r); err != nil {
				return &exitError{error: err, code: exitCode(err), silent: true}
			}
			return nil
		},
	}
	a.addFlags(c)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only tell what differs, and whether it would be applied")
	return c
}

// reloadError is how a reload ends, for the exit code.
func reloadError(r *status.Reload) error {
	switch {
	case r.Result == status.ReloadApplied || r.Result == status.ReloadUnchanged:
		return nil
	case len(r.Faults) > 0:
		var errs config.Errors
		for _, f := range r.Faults {
			errs = append(errs, f.Error())
		}
		return &exitError{error: errs, code: exitConfig}
	case r.Result == status.ReloadInvalid:
		return configError(errors.New(r.Error))
	}
	return errors.New(r.Summary())
}
