package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/internal/cli"
)

func newCheckCommand() *cobra.Command {
	var file string
	var anyHost bool
	c := &cobra.Command{
		Use:   "check [--config] FILE",
		Short: "Validate a configuration file",
		Long: `Validate a configuration file: syntax, values, and that this host has the interfaces and
other things that it names. Each mistake is a line with file, line, column, problem and hint.

With --any-host, checks that depend on the host are left out.

Exit codes: 78 invalid configuration, 75 valid but this host lacks something that it names.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && file != "":
				return cli.WrongUsage(c, errors.New("check takes one file: as the argument or by --config, not both"))
			case len(args) == 1:
				file = args[0]
			}
			if file == "" {
				return cli.UsageError(errors.New("check needs a FILE"))
			}
			cfg, err := config.Load(file)
			if err == nil && !anyHost {
				err = config.CheckHost(cfg)
			}
			if err != nil {
				return cli.ConfigError(err)
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: ok, %s, engine %s\n", file, cli.Count(len(cfg.Ports), "port"), cfg.Engine)
			return nil
		},
	}
	c.Flags().StringVarP(&file, "config", "c", "", "configuration `FILE`")
	c.Flags().BoolVar(&anyHost, "any-host", false, "skip checks that depend on this host, such as its interfaces")
	c.MarkFlagFilename("config", "yaml", "yml")
	return c
}
