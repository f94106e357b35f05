package esp_test

import (
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

// Packets of every length are decided on without allocation; ESP longer than a frame length is dropped.
func TestReassembledPacketsOfAllLengths(t *testing.T) {
	for _, mode := range []ipsec.Mode{ipsec.Tunnel, ipsec.Transport} {
		for _, outer6 := range []bool{false, true} {
			w, _, sa := secured(t, config(ipsec.Out, outer6), func(c *ipsec.Config) { c.Mode = mode })
			for n := 65535; n > 65300; n-- {
				var p []byte
				if outer6 {
					p = testutil.UDP6("2001:db8::1", "fd01::f9", 1, 2, make([]byte, n-48)...)[packet.EthernetLen:]
				} else {
					p = testutil.UDP4("192.0.2.1", "10.1.9.9", 1, 2, make([]byte, n-28)...)[packet.EthernetLen:]
				}
				before := sa.Sequence()
				f, r, now := w.Engine.ProcessReassembled(p, batch.From(1).With(batch.Reassembled))
				sealed := sa.Sequence() != before
				if r.Verdict.Action() != batch.ActionDrop || sealed && (len(now) <= len(p) || !f.Origin.Has(batch.PolicyDone)) {
					t.Fatalf("%v, %d bytes: %v, %d bytes", mode, n, r, len(now))
				}
				if reason := r.Verdict.Reason(); !sealed && n > 65521 && reason != batch.XfrmInBufferError {
					t.Fatalf("%v, %d bytes: %v", mode, n, r.Verdict)
				}
			}
		}
	}
	w, _, _ := secured(t, config(ipsec.Out, false))
	p := testutil.UDP4("203.0.113.5", "10.1.0.9", 1, 2, make([]byte, 30_000)...)[packet.EthernetLen:]
	if n := testing.AllocsPerRun(10, func() { w.Engine.ProcessReassembled(p, 1) }); n != 0 {
		t.Errorf("a datagram allocates %v times", n)
	}
}
