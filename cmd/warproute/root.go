package main

import (
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func newRootCommand() *cobra.Command {
	root := group(&cobra.Command{
		Use:   "warproute",
		Short: "A software router: AF_XDP in and out, Linux as its control plane",
		Long: `warproute forwards IPv4 and IPv6 between network interfaces, past the kernel's
network stack. Linux stays in charge of addresses, routes and neighbours:
ip route, FRR and BIRD work as ever.

  warproute doctor --port lan0 --port wan0     what will work on this host
  warproute run --port lan0 --port wan0        route between two interfaces
  warproute show ports                         ask the running router`,
		Version:       versionLine(),
		SilenceUsage:  true,
		SilenceErrors: true,
	})
	root.AddCommand(
		tidy(newRunCommand()),
		newCheckCommand(),
		newReloadCommand(),
		newGuardCommand(),
		newReleaseCommand(),
		newShowCommand(),
		newRouteCommand(),
		tidy(newCaptureCommand()),
		tidy(newTraceCommand()),
		tidy(newTopCommand()),
		newDoctorCommand(),
		tidy(newGenCommand()),
		tidy(newDemoCommand()),
		newBenchCommand(),
		newVersionCommand(),
	)
	root.SetVersionTemplate("{{.Version}}\n")
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			group(c)
		}
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return wrongUsage(c, err) })
	markUsageErrors(root)
	return root
}

// tidy has SIGINT and SIGTERM end the context of a command that has something to put in
// order before it ends, and looks at its context often. They end other commands at once.
func tidy(c *cobra.Command) *cobra.Command {
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, unix.SIGTERM)
		defer stop()
		c.SetContext(ctx)
		return run(c, args)
	}
	return c
}

// markUsageErrors makes what the commands' checks of their arguments refuse
// wrong usage.
func markUsageErrors(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return wrongUsage(c, err)
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		markUsageErrors(sub)
	}
}

func wrongUsage(c *cobra.Command, err error) error {
	return usageError(fmt.Errorf("%w; see `%s --help`", err, c.CommandPath()))
}

// group makes a command one that only holds others.
func group(c *cobra.Command) *cobra.Command {
	c.Args, c.RunE = cobra.ArbitraryArgs, needSubcommand
	return c
}

// needSubcommand is what a command that only holds others does when it is called
// by itself, or with the name of none of them.
func needSubcommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return wrongUsage(c, fmt.Errorf("%s needs a command", c.CommandPath()))
	}
	c.SuggestionsMinimumDistance = 2
	err := fmt.Errorf("%s has no command %q", c.CommandPath(), args[0])
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return usageError(fmt.Errorf("%w; did you mean %q?", err, near[0]))
	}
	return wrongUsage(c, err)
}
