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
		Use:   "check [--config] FILE",
		Short: "Validate a configuration",
		Long: `Validate a configuration: the text, the values, and that this host has what
they name. Each mistake gets a line: file, line, column, what is wrong, and a hint.

On a host that is not the router, --any-host leaves out what depends on the host, such as
its interfaces, and checks the rest.

It exits with 78 if the configuration is wrong, and with 75 if all that is wrong is that this
host lacks something, such as an interface, and may have it later.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && file != "":
				return wrongUsage(c, errors.New("check one file: name it as the argument or by --config, not both"))
			case len(args) == 1:
				file = args[0]
			}
			if file == "" {
				return usageError(errors.New("check needs a FILE"))
			}
			cfg, err := config.Load(file)
			if err == nil && !anyHost {
				err = config.CheckHost(cfg)
			}
			if err != nil {
				return configError(err)
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: ok, %d ports, engine %s\n", file, len(cfg.Ports), cfg.Engine)
			return nil
		},
	}
	c.Flags().StringVarP(&file, "config", "c", "", "the `FILE` to validate")
	c.Flags().BoolVar(&anyHost, "any-host", false, "leave out what depends on this host, such as its interfaces")
	c.MarkFlagFilename("config", "yaml", "yml")
	return c
}
