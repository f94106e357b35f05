package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/control/config"
)

func newCheckCommand() *cobra.Command {
	var file string
	var anyHost bool
	c := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Validate a configuration",
		Long: `Validate a configuration: the text, the values, and that this host has what
they name. Each mistake gets a line: file, line, column, what is wrong, the mend.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if file == "" {
				return usageError(errors.New("check needs --config FILE"))
			}
			cfg, err := config.Load(file)
			if err == nil && !anyHost {
				err = config.CheckHost(cfg)
			}
			if err != nil {
				return usageError(err)
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: ok, %d ports, engine %s\n", file, len(cfg.Ports), cfg.Engine)
			return nil
		},
	}
	c.Flags().StringVar(&file, "config", "", "the `FILE` to validate")
	c.Flags().BoolVar(&anyHost, "any-host", false, "leave out what depends on this host, such as its interfaces")
	c.MarkFlagFilename("config", "yaml", "yml")
	return c
}
