// Command warproute is a software router; `warproute --help` lists its commands.
//
// This package wires the others together. Each command has a file.
package main

import "github.com/warproute/warproute/internal/cli"

func main() { cli.Main(newRootCommand()) }
