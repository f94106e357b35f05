package cli

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/control/metrics"
)

// version, revision and date are set by the Makefile. A plain `go build` leaves them to the build
// information that Go records.
var version, revision, date string

// Object is code for a GPU or for the kernel that is part of a binary.
type Object struct {
	Name string // of its file
	Code []byte
}

// Build returns the version, revision, date and Go version of this binary.
func Build() metrics.Build {
	b := metrics.Build{Version: version, Revision: revision, Date: date, GoVersion: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = cmp.Or(b.Version, info.Main.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = cmp.Or(b.Revision, s.Value)
			case "vcs.time":
				b.Date = cmp.Or(b.Date, s.Value)
			}
		}
	}
	b.Version, b.Revision = cmp.Or(b.Version, "(devel)"), cmp.Or(b.Revision, "unknown")
	return b
}

// VersionLine returns the output of --version and the first line of `version`.
func VersionLine(program string) string {
	b := Build()
	revision := b.Revision
	if b.Date != "" {
		revision += ", " + b.Date
	}
	return fmt.Sprintf("%s %s (%s), %s, %s/%s", program, b.Version, revision, b.GoVersion, runtime.GOOS, runtime.GOARCH)
}

// objectHash is an object in the output of `version --json`.
type objectHash struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

func newVersionCommand(objects []Object) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version, revision, Go version, and checksums of GPU kernels and XDP programs",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			hashes := []objectHash{}
			for _, o := range objects {
				hashes = append(hashes, objectHash{o.Name, fmt.Sprintf("%x", sha256.Sum256(o.Code))})
			}
			if asJSON {
				return WriteJSON(c.OutOrStdout(), struct {
					metrics.Build
					Objects []objectHash `json:"objects"`
				}{Build(), hashes})
			}
			text := VersionLine(c.Root().Name()) + "\n"
			for _, h := range hashes {
				text += fmt.Sprintf("%s  %s\n", h.SHA256, h.Name)
			}
			_, err := io.WriteString(c.OutOrStdout(), text)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
