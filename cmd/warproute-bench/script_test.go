package main

import (
	"testing"

	"github.com/warproute/warproute/internal/cli/clitest"
	"github.com/warproute/warproute/internal/race"
)

func TestMain(m *testing.M) { clitest.Main(m, "warproute-bench", main) }

// Scripts run commands for single results, without the race detector: a program with it takes a second of CPU time to start.
func TestScripts(t *testing.T) {
	if !race.Enabled {
		clitest.Run(t)
	}
}
