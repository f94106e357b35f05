package offload

import "testing"

// A fragment, or a packet with IP options, between datagrams of a flow keeps its place. A packet of another protocol
// does not separate them.
func TestOrderAroundPacketsThatAreNotMerged(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p []byte)
		merged bool
	}{
		"fragment": {func(p []byte) { p[6] = 0x20 }, false},
		"options":  {func(p []byte) { p[0] = 0x46 }, false},
		"ICMP":     {func(p []byte) { p[9] = 1 }, true},
	} {
		a, b, d := udp(false, 1, 1, make([]byte, 50)), udp(false, 1, 2, make([]byte, 50)), udp(false, 1, 2, make([]byte, 50))
		c.change(b)
		m := NewMerger(3)
		groups := len(m.Group([][]byte{a, b, d}, false))
		if merged := m.Next(0) == 2; merged != c.merged || groups != 3 && !merged {
			t.Errorf("%s: the datagrams around it are merged: %v, %d groups", name, merged, groups)
		}
	}
}
