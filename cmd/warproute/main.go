// Command warproute is a software router: see `warproute --help`.
//
// This package wires the others together and holds what a user meets: verbs,
// flags, messages. Each verb is a file.
package main

import "os"

func main() {
	err := newRootCommand().Execute()
	printError(os.Stderr, err)
	os.Exit(exitCode(err))
}
