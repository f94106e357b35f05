package main

import (
	"testing"

	"github.com/warproute/warproute/internal/cli/clitest"
	"github.com/warproute/warproute/internal/race"
	"github.com/warproute/warproute/internal/spawner"
)

func TestMain(m *testing.M) {
	spawner.Run()
	clitest.Main(m, "warproute", main)
}

// Scripts run commands for single results, without the race detector: a program with it takes a second of CPU time to start.
func TestScripts(t *testing.T) {
	if !race.Enabled {
		clitest.Run(t)
	}
}
