package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/control/metrics"
)

// version and revision are set by the Makefile; a plain `go build` leaves them
// to what Go recorded.
var version, revision string

// thisBuild says what this binary was built from.
func thisBuild() metrics.Build {
	b := metrics.Build{Version: version, Revision: revision, GoVersion: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = cmp.Or(b.Version, info.Main.Version)
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = cmp.Or(b.Revision, s.Value)
			}
		}
	}
	b.Version, b.Revision = cmp.Or(b.Version, "(devel)"), cmp.Or(b.Revision, "unknown")
	return b
}

// versionLine is what --version and `version` print.
func versionLine() string {
	b := thisBuild()
	return fmt.Sprintf("warproute %s (%s), %s, %s/%s", b.Version, b.Revision, b.GoVersion, runtime.GOOS, runtime.GOARCH)
}

func newVersionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print what this binary was built from",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(thisBuild())
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), versionLine())
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
