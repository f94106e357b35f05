package cpu

import (
	"bytes"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/testutil"
)

// asking makes port 1 strict, and port 2 loose in IPv4 alone.
func asking(w *world) {
	w.Net.SetRPF(1, fib.RPF{IPv4: fib.RPFStrict, IPv6: fib.RPFStrict})
	w.Net.SetRPF(2, fib.RPF{IPv4: fib.RPFLoose})
}

// A packet from an unacceptable source is dropped for that and left unchanged. Marked packets are exempt.
func TestReversePathPrecedesValidation(t *testing.T) {
	from := func(src string) []byte { return testutil.UDP4(src, "10.1.0.9", 1000, 53, make([]byte, 40)...) }
	from6 := func(src string) []byte { return testutil.UDP6(src, "fd01::9", 1000, 53, make([]byte, 40)...) }
	broken := from("172.16.0.1")
	broken[24]++ // the checksum
	refused := batch.Drop(batch.ReversePath)
	all := []struct {
		name   string
		origin batch.Origin
		frame  []byte
		want   batch.Verdict
	}{
		{"by the port", 1, from("10.1.0.1"), batch.Forward(1)},
		{"by the port, IPv6", 1, from6("fd01::1"), batch.Forward(1)},
		{"by the port, unresolved", 1, from("10.4.0.1"), batch.Forward(1)},
		{"by a group with the port", 1, from("10.5.0.1"), batch.Forward(1)},
		{"by another port", 1, from("10.2.0.1"), refused},
		{"by another port, IPv6", 1, from6("fd02::1"), refused},
		{"by another port that is down", 1, from("10.3.0.1"), refused},
		{"to this host", 1, from("10.6.0.1"), refused},
		{"by Linux's interface", 1, from("10.10.0.1"), refused},
		{"by another port, loose", 2, from("10.1.0.1"), batch.Forward(1)},
		{"by Linux's interface, loose", 2, from("10.10.0.1"), batch.Forward(1)},
		{"to a blackhole, loose", 2, from("10.7.0.1"), refused},
		{"to this host, loose", 2, from("10.6.0.1"), refused},
		{"no route, loose", 2, from("172.16.0.1"), refused},
		{"no route, the other family", 2, from6("2001:db8::1"), batch.Forward(1)},
		{"no route, any", 0, from("172.16.0.1"), batch.Forward(1)},
		{"martian", 2, from("127.0.0.1"), refused},
		{"martian, any", 0, from("127.0.0.1"), batch.Drop(batch.SourceMartian)},
		{"last fragment", 2, testutil.Edit(from("172.16.0.1"), 6, 0, 9), refused},
		{"expired", 2, testutil.Edit(from("172.16.0.1"), 8, 1), refused},
		{"expired, with a way back", 2, testutil.Edit(from("10.2.0.1"), 8, 1), batch.Drop(batch.TTLExpired)},
		{"checksum", 2, broken, refused},
		{"options", 1, testutil.Edit(from("10.2.0.1"), 0, 0x46), refused},
		{"version", 1, testutil.Edit(from("10.2.0.1"), 0, 0x55), refused},
		{"no whole header", 1, from("172.16.0.1")[:33], batch.Drop(batch.TooShort)},
		{"no whole header, IPv6", 1, from6("2001:db8::1")[:53], batch.Drop(batch.TooShort)},
		{"of our own", batch.From(1).With(batch.Own), from("172.16.0.1"), batch.Forward(1)},
		{"out of a tunnel", batch.From(1).With(batch.PolicyDone), from("172.16.0.1"), batch.Forward(1)},
		{"out of a tunnel, and waited", batch.From(1).With(batch.InboundChecked), from("172.16.0.1"), batch.Forward(1)},
	}
	w := newWorld(t)
	asking(w)
	var frames [][]byte
	for range 5 { // blocks of all ports
		for _, c := range all {
			frames = append(frames, c.frame)
		}
	}
	w.Submit(0, frames...)
	for i, f := range frames { // now by their ports
		copy(w.Received(i), f)
		w.Chunk.In[i].Origin, w.Chunk.Out[i] = all[i%len(all)].origin, batch.Result{Verdict: 0xffff}
	}
	w.Engine.Submit(w.Chunk)
	for i, f := range frames {
		c, r := all[i%len(all)], w.Chunk.Out[i]
		if r.Verdict != c.want {
			t.Errorf("%s: %v, want %v", c.name, r.Verdict, c.want)
		}
		if c.want == refused && (r != batch.DropFor(batch.ReversePath) || !bytes.Equal(w.Received(i), f)) {
			t.Errorf("%s: %+v, and the packet was changed", c.name, r)
		}
	}
	if n := testing.AllocsPerRun(10, func() { w.Engine.Submit(w.Chunk) }); n != 0 {
		t.Errorf("Submit allocates %v times", n)
	}
}
