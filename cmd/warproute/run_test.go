package main

import (
	"testing"

	"github.com/warproute/warproute/control/config"
)

// The mend of a wrong address says so of the file, and it holds for the flag, too.
func TestMetricsAreServedNowhereForNone(t *testing.T) {
	for text, want := range map[string]string{"": "", "none": "", "[::1]:9999": "[::1]:9999"} {
		f := runFlags{ports: []string{"lan0"}, metrics: text, given: func(flag string) bool { return flag == "metrics" }}
		f.running = []config.Port{{Interface: "lan0"}} // so that this host may lack it
		cfg, err := f.load()
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.Metrics.Listen; got != want {
			t.Errorf("--metrics %q: served at %q, want %q", text, got, want)
		}
	}
}
