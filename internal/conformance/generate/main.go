// Command generate writes CONFORMANCE.md, to the path that it is given.
package main

import (
	"fmt"
	"os"

	"github.com/warproute/warproute/internal/conformance"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate PATH")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], conformance.Markdown(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "write the rules:", err)
		os.Exit(1)
	}
}
