package cpu

import (
	"bytes"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/testutil"
	esp "github.com/warproute/warproute/ipsec"
)

// Port 1 is strict, port 2 is loose in IPv4 alone, and port 0 takes anything.
func asking(w *world) {
	w.net.SetSources(1, fib.Sources{IPv4: fib.StrictSource, IPv6: fib.StrictSource})
	w.net.SetSources(2, fib.Sources{IPv4: fib.LooseSource})
}

// A packet from where its port takes none is dropped for that, whatever else is wrong with
// it, and left as it was received. What bears a mark, or has no source to look at, is not asked.
func TestSourcesComeFirst(t *testing.T) {
	from := func(src string) []byte { return testutil.UDP4(src, "10.1.0.9", 1000, 53, make([]byte, 40)...) }
	from6 := func(src string) []byte { return testutil.UDP6(src, "fd01::9", 1000, 53, make([]byte, 40)...) }
	broken := from("172.16.0.1")
	broken[24]++ // the checksum
	refused := batch.Drop(batch.ReversePath)
	all := []struct {
		name  string
		port  uint16
		frame []byte
		want  batch.Verdict
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
		{"to nowhere, loose", 2, from("10.7.0.1"), refused},
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
		{"of our own", 1 | batch.Own, from("172.16.0.1"), batch.Forward(1)},
		{"out of a tunnel", 1 | batch.Secured, from("172.16.0.1"), batch.Forward(1)},
		{"out of a tunnel, and waited", 1 | batch.Cleared, from("172.16.0.1"), batch.Forward(1)},
	}
	w := newWorld(t)
	asking(w)
	var frames [][]byte
	for range 5 { // blocks of all ports
		for _, c := range all {
			frames = append(frames, c.frame)
		}
	}
	w.submit(0, frames...)
	for i, f := range frames { // now by their ports
		copy(w.received(i), f)
		w.chunk.In[i].Port, w.chunk.Out[i] = all[i%len(all)].port, batch.Result{Verdict: 0xffff}
	}
	w.engine.Submit(w.chunk)
	for i, f := range frames {
		c, r := all[i%len(all)], w.chunk.Out[i]
		if r.Verdict != c.want {
			t.Errorf("%s: %v, want %v", c.name, r.Verdict, c.want)
		}
		if c.want == refused && (r != batch.Result{Verdict: refused} || !bytes.Equal(w.received(i), f)) {
			t.Errorf("%s: %+v, and the packet was changed", c.name, r)
		}
	}
	if n := testing.AllocsPerRun(10, func() { w.engine.Submit(w.chunk) }); n != 0 {
		t.Errorf("Submit allocates %v times", n)
	}
}

// A gateway opens and protects nothing that comes from where it should not; what comes out of
// a tunnel may come from anywhere.
func TestSourcesComeBeforePolicies(t *testing.T) {
	a, _, out := secured(t, config(esp.Out, false))
	asking(a)
	r := a.submit(2, to4("10.1.0.9"))[0] // from 192.0.2.1
	if r.Verdict != batch.Drop(batch.ReversePath) || out.Sequence() != 0 || a.chunk.In[0].Port != 2 {
		t.Errorf("%v, %d sequence numbers used, port %#x", r.Verdict, out.Sequence(), a.chunk.In[0].Port)
	}
	wire := bytes.Clone(a.bytes(a.submit(0, to4("10.1.0.9"))[0]))
	copy(wire[:6], mac1)
	b, _, in := secured(t, config(esp.In, false))
	asking(b)
	if r := b.submit(2, wire)[0]; r.Verdict != batch.Drop(batch.ReversePath) || !bytes.Equal(b.received(0), wire) {
		t.Errorf("ESP from where no route leads: %v", r.Verdict)
	}
	b.net.Route(1, "198.51.100.1/32") // the other gateway's
	if r := b.submit(2, wire)[0]; r.Verdict != batch.Forward(1) || in.Stats().Packets != 1 {
		t.Errorf("ESP from where a route leads: %v, %+v", r.Verdict, in.Stats())
	}
}
