package offload

import "testing"

// A fragment, or another packet that is not merged, keeps its place between datagrams of its flow. Packets of other
// flows do not separate them.
func TestOrderAroundPacketsThatAreNotMerged(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p []byte)
		merged bool
	}{
		"first fragment":           {func(p []byte) { p[6] = 0x20 }, false},
		"later fragment":           {func(p []byte) { p[7] = 1 }, false},
		"reserved flag":            {func(p []byte) { p[6] = 0x80 }, false},
		"fragment of another flow": {func(p []byte) { p[6], p[23] = 0x20, 99 }, true},
		"ICMP":                     {func(p []byte) { p[9] = 1 }, true},
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
