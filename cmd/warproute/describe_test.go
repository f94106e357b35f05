package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/dataplane"
)

// The description of a router lists describedPorts ports, and one more rather than a line that says so.
func TestDescriptionListsTheFirstPorts(t *testing.T) {
	for n, want := range map[int]string{1: "", describedPorts + 1: "", describedPorts + 2: "and 2 more (warproute show ports)", 4096: "and 4032 more (warproute show ports)"} {
		snap := &status.Snapshot{Stats: &dataplane.Stats{Workers: 1}}
		for i := range n {
			snap.Ports = append(snap.Ports, status.PortState{Name: fmt.Sprint("v", i), Up: true})
		}
		var text strings.Builder
		describe(&text, config.Default("a"), snap)
		lines := strings.Count(text.String(), "XDP")
		listed := n
		if want != "" {
			listed = describedPorts
		}
		if lines != listed || !strings.Contains(text.String(), want) || (want == "") != !strings.Contains(text.String(), " more ") || !strings.HasPrefix(text.String(), fmt.Sprintf("forwarding on %d port", n)) {
			t.Errorf("%d ports: %d are listed, want %d, and %q:\n%.300s", n, lines, listed, want, text.String())
		}
	}
}
