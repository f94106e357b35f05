// Command warproute-bench measures warproute and generates traffic; `warproute-bench --help` lists
// its commands.
//
// Results are verified before anything is timed. Each command has a file.
package main

import "github.com/warproute/warproute/internal/cli"

func main() { cli.Main(newRootCommand()) }
