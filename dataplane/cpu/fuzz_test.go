package cpu

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// check checks the invariants of every result.
func check(t *testing.T, w *world, in []byte, r batch.Result, i int) {
	switch r.Verdict.Action() {
	case batch.ActionForward:
		out := w.Sent(r)
		if len(out) < packet.EthernetLen+packet.IPv4Len || len(out) > len(in) {
			t.Fatalf("% x: %d bytes leave", in, len(out))
		}
		p, q := in[packet.EthernetLen:len(out)], out[packet.EthernetLen:]
		if q[0]>>4 == 4 && (q[8] != p[8]-1 || q[8] == 0 || packet.Sum(q[:20]) != 0xffff) {
			t.Fatalf("IPv4 % x leaves as % x", p, q)
		}
		if q[0]>>4 == 6 && (q[7] != p[7]-1 || q[7] == 0) {
			t.Fatalf("IPv6 % x leaves as % x", p, q)
		}
		if r.Verdict.Port() != 1 && r.Verdict.Port() != 2 {
			t.Fatalf("% x: leaves by port %d", in, r.Verdict.Port())
		}
	case batch.ActionDrop:
		if r.Verdict.Reason() == batch.Unprocessed || int(r.Verdict.Reason()) >= batch.NumReasons {
			t.Fatalf("% x: %v", in, r.Verdict)
		}
		fallthrough
	case batch.ActionHold:
		if !bytes.Equal(w.Received(i), in) {
			t.Fatalf("% x: not forwarded, but changed", in)
		}
	default:
		t.Fatalf("% x: %v", in, r.Verdict)
	}
}

func seeds() [][]byte {
	return [][]byte{
		to4("10.1.0.9"), to6("fd01::9"), to4("10.5.0.9"), to6("fd05::9"), to4("10.4.0.1"),
		testutil.Edit(testutil.Edit(to6("fd05::9"), 6, byte(packet.Routing)), 40, 17, 0, 0, 1),
		testutil.Edit(testutil.Edit(to6("fd05::9"), 6, byte(packet.HopByHop)), 40, 44, 0),
		testutil.Frame(testutil.Ethernet(layers.EthernetTypeIPv4), testutil.IPv4("1.2.3.4", "10.5.0.3", 6),
			&layers.TCP{SrcPort: 1, DstPort: 2, SYN: true}, gopacket.Payload("hello")),
	}
}

func TestMutatedFramesGetNamedVerdicts(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 100
	}
	w, rnd := newWorld(t), rand.New(rand.NewPCG(5, 5))
	frames, originals := make([][]byte, 1000), seeds()
	for range rounds {
		for i := range frames {
			frames[i] = testutil.Mutate(rnd, originals[rnd.IntN(len(originals))])
		}
		for i, r := range w.Submit(0, frames...) {
			check(t, w, frames[i], r, i)
		}
	}
}

func FuzzEngine(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) > umem.MaxFrameLen {
			return
		}
		w := newWorld(t)
		check(t, w, frame, w.Submit(0, frame)[0], 0)
	})
}
