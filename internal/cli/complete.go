package cli

import (
	"net"

	"github.com/spf13/cobra"
)

// CompleteValues makes the shell complete a flag with these values.
func CompleteValues(c *cobra.Command, flag string, values ...string) {
	complete(c, flag, func() []string { return values })
}

// CompletePorts makes the shell complete a flag with the names of this host's interfaces.
func CompletePorts(c *cobra.Command, flag string) {
	complete(c, flag, func() (names []string) {
		links, _ := net.Interfaces()
		for _, l := range links {
			if l.Flags&net.FlagLoopback == 0 {
				names = append(names, l.Name)
			}
		}
		return names
	})
}

func complete(c *cobra.Command, flag string, values func() []string) {
	err := c.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values(), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the command has no such flag
	}
}
