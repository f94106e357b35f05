package main

import (
	"testing"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/internal/require"
)

func TestMetricsFlagNoneDisablesMetrics(t *testing.T) {
	for text, want := range map[string]string{"": "", "none": "", "[::1]:9999": "[::1]:9999"} {
		f := runFlags{ports: []string{"lan0"}, metrics: text, given: func(flag string) bool { return flag == "metrics" }}
		f.running = []config.Port{{Interface: "lan0"}} // accepted although this host has no lan0
		cfg, err := f.load()
		require.NoError(t, err)
		if got := cfg.Metrics.Listen; got != want {
			t.Errorf("--metrics %q: listen address %q, want %q", text, got, want)
		}
	}
}
