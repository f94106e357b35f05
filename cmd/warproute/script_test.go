package main

import (
	"testing"

	"github.com/warproute/warproute/internal/cli/clitest"
	"github.com/warproute/warproute/internal/spawner"
)

func TestMain(m *testing.M) {
	spawner.Run()
	clitest.Main(m, "warproute", main)
}

func TestScripts(t *testing.T) { clitest.Run(t) }
