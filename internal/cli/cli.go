// Package cli holds the conventions that the commands of this module share: usage errors, exit
// codes, JSON output, command groups, version and completion.
package cli

import (
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// Main runs a root command and exits.
func Main(root *cobra.Command) {
	err := root.Execute()
	PrintError(os.Stderr, root.Name(), err)
	os.Exit(ExitCode(err))
}

// extra are commands that build tags add.
var extra []*cobra.Command

// Root completes a root command: version, completion, usage errors. `version` prints the checksums of
// objects.
func Root(root *cobra.Command, objects ...Object) *cobra.Command {
	Group(root)
	root.Version = VersionLine(root.Name())
	root.SetVersionTemplate("{{.Version}}\n")
	root.SilenceUsage, root.SilenceErrors = true, true
	root.AddCommand(newVersionCommand(objects))
	root.AddCommand(extra...)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			Group(c)
		}
	}
	root.SetFlagErrorFunc(WrongUsage)
	markUsageErrors(root)
	return root
}

// Interruptible cancels the context of a command on SIGINT and SIGTERM, so that it can clean up.
// Other commands end at once.
func Interruptible(c *cobra.Command) *cobra.Command {
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, unix.SIGTERM)
		defer stop()
		c.SetContext(ctx)
		return run(c, args)
	}
	return c
}

// markUsageErrors turns errors of argument checks into usage errors.
func markUsageErrors(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return WrongUsage(c, err)
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		markUsageErrors(sub)
	}
}

// WrongUsage marks err as wrong usage and refers to the help of the command.
func WrongUsage(c *cobra.Command, err error) error {
	return UsageError(fmt.Errorf("%w; see `%s --help`", err, c.CommandPath()))
}

// Group makes c a command that only has subcommands.
func Group(c *cobra.Command) *cobra.Command {
	c.Args, c.RunE = cobra.ArbitraryArgs, needSubcommand
	return c
}

// needSubcommand prints help if a group is run alone, and suggests names for an unknown subcommand.
func needSubcommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		c.SetOut(c.ErrOrStderr())
		_ = c.Help()
		return Printed(UsageError(errors.New("missing command")))
	}
	c.SuggestionsMinimumDistance = 2
	err := fmt.Errorf("%s has no command %q", c.CommandPath(), args[0])
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return UsageError(fmt.Errorf("%w; did you mean %q?", err, near[0]))
	}
	return WrongUsage(c, err)
}
