// Command warproute is a software router; `warproute --help` lists its commands.
//
// This package wires the others together. Each command has a file.
package main

import (
	"os"

	"github.com/warproute/warproute/internal/cli"
	"github.com/warproute/warproute/internal/spawner"
)

// init gives the process its name again after it has executed itself (privilege.Reduce), for pidof and pkill: by
// /proc/self/exe it is "exe".
func init() { _ = os.WriteFile("/proc/self/comm", []byte("warproute"), 0) }

func main() {
	spawner.Run()
	cli.Main(newRootCommand())
}
