package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/control/metrics"
)

// version and revision are set by the Makefile. A plain `go build` leaves them to the build
// information that Go records.
var version, revision string

// Build returns the version, revision and Go version of this binary.
func Build() metrics.Build {
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

// VersionLine returns the output of --version and `version`.
func VersionLine(program string) string {
	b := Build()
	return fmt.Sprintf("%s %s (%s), %s, %s/%s", program, b.Version, b.Revision, b.GoVersion, runtime.GOOS, runtime.GOARCH)
}

func newVersionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version, revision and Go version",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if asJSON {
				return WriteJSON(c.OutOrStdout(), Build())
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), VersionLine(c.Root().Name()))
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
