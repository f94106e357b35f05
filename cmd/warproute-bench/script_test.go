package main

import (
	"testing"

	"github.com/warproute/warproute/internal/cli/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, "warproute-bench", main) }

func TestScripts(t *testing.T) { clitest.Run(t) }
