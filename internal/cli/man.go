//go:build man

package cli

import (
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// init adds a hidden command that writes man pages; only `make man` builds it.
func init() {
	extra = append(extra, &cobra.Command{
		Use: "man DIR", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			header := &doc.GenManHeader{Section: "8", Source: Build().Version, Manual: "warproute"}
			if seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
				date := time.Unix(seconds, 0).UTC()
				header.Date = &date
			}
			c.Root().DisableAutoGenTag = true
			return doc.GenManTree(c.Root(), header, args[0])
		},
	})
}
