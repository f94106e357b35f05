package main

import (
	"strings"
	"testing"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/dataplane"
)

// On a bond the kernel does not pass frames to sockets.
func TestAccountCountsRefusedRedirects(t *testing.T) {
	var b strings.Builder
	account(&b, &status.Snapshot{
		Ports: []status.PortState{{Name: "bond0", XDP: status.XDP{ToSocket: 40, Refused: 20, ToLinux: map[string]uint64{"local": 5}}}},
		Stats: &dataplane.Stats{Ports: []dataplane.PortStats{{RxPackets: 20, TxPackets: 20}}},
	})
	for _, want := range []string{
		"stopped: 45 frames arrived: 5 handed to Linux, 20 lost before the router, 20 received; of these 20 transmitted, 0 dropped",
		"lost before the router at bond0: 20, the kernel refused to redirect",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}
