package esp_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
)

func TestPoliciesDecideWhatPasses(t *testing.T) {
	drop := batch.Drop
	clear4 := testutil.UDP4("203.0.113.5", "10.1.0.9", 1, 2, make([]byte, 40)...)
	for _, c := range []struct {
		name      string
		direction ipsec.Direction
		frame     []byte
		want      batch.Verdict
	}{
		{"out: no policy", ipsec.Out, clear4, batch.Forward(1)},
		{"out: bypass", ipsec.Out, to4("10.1.7.7"), batch.Forward(1)},
		{"out: discard", ipsec.Out, to4("10.5.0.1"), drop(batch.XfrmOutPolBlock)},
		{"out: malformed", ipsec.Out, testutil.Edit(to4("10.1.0.9"), 0, 0x55), drop(batch.IPVersion)},
		{"out: TTL", ipsec.Out, testutil.Edit(to4("10.1.0.9"), 8, 1), drop(batch.TTLExpired)},
		{"in: no policy", ipsec.In, clear4, batch.Forward(1)},
		{"in: bypass", ipsec.In, to4("10.1.7.7"), batch.Forward(1)},
		{"in: discard", ipsec.In, to4("10.5.0.1"), drop(batch.XfrmInPolBlock)},
		{"in: plaintext that should be protected", ipsec.In, to4("10.1.0.9"), drop(batch.XfrmInTmplMismatch)},
		{"in: IPv6 plaintext that should be protected", ipsec.In, to6("fd01::9"), drop(batch.XfrmInTmplMismatch)},
	} {
		w, _, _ := secured(t, config(c.direction, false))
		r := w.Submit(1, c.frame)[0]
		if r.Verdict != c.want {
			t.Errorf("%s: %v, want %v", c.name, r.Verdict, c.want)
		}
		if r.Verdict.Action() == batch.ActionForward && r.Addr() != w.Chunk.In[0].Addr {
			t.Errorf("%s: the packet was moved", c.name)
		}
	}
}

func TestStageDoesNotAllocate(t *testing.T) {
	w, _, _ := secured(t, config(ipsec.Out, false))
	frames := [][]byte{to4("10.1.0.9"), to6("fd01::9"), to4("10.5.0.9"), to4("172.16.0.1")}
	if n := testing.AllocsPerRun(100, func() { w.Submit(0, frames...) }); n != 0 {
		t.Errorf("Submit allocates %v times", n)
	}
}

func TestReasonsHaveTheNamesOfErrors(t *testing.T) {
	for e := ipsec.OK + 1; e < ipsec.Errors; e++ {
		name := strings.ReplaceAll(esp.ReasonOf(e).String(), "_", "")
		if !strings.EqualFold(name, e.String()) {
			t.Errorf("%v is the reason %v", e, esp.ReasonOf(e))
		}
	}
}

// The result for a packet does not depend on the other packets of its block.
func TestBlocksEqualSinglePackets(t *testing.T) {
	plain := [][]byte{
		to4("10.1.0.9"), to6("fd01::9"), to4("10.1.7.7"), to4("10.5.0.1"), to4("172.16.0.1"), {1, 2, 3},
		testutil.UDP4("192.0.2.1", "10.2.0.9", 1, 2, make([]byte, 1450)...), testutil.Edit(to4("10.1.0.9"), 8, 1),
		testutil.UDP4("203.0.113.5", "10.1.0.9", 1, 2, make([]byte, 40)...),
	}
	var clear, wire [][]byte
	a, _, _ := secured(t, config(ipsec.Out, false))
	for i := range 200 {
		clear = append(clear, plain[i*5%len(plain)])
		r := a.Submit(0, to4("10.1.0.9"))[0]
		sealed := bytes.Clone(a.Sent(r))
		switch i % 7 {
		case 3:
			sealed[40]++
		case 5:
			sealed = wire[i-2] // again
		case 6:
			sealed = clear[i]
		}
		wire = append(wire, sealed)
	}
	for d, frames := range map[ipsec.Direction][][]byte{ipsec.Out: clear, ipsec.In: wire} {
		together, _, _ := secured(t, config(d, false))
		single, _, _ := secured(t, config(d, false))
		results := together.Submit(2, frames...)
		verdicts := map[batch.Verdict]bool{}
		for i, f := range frames {
			want := single.Submit(2, f)[0]
			got := results[i]
			verdicts[got.Verdict] = true
			if got.Verdict != want.Verdict || got.Len() != want.Len() {
				t.Fatalf("%v, packet %d: %v, alone %v", d, i, got, want)
			}
			if got.Verdict.Action() == batch.ActionForward && !bytes.Equal(together.Sent(got), single.Sent(want)) {
				t.Errorf("%v, packet %d:\n together % x\n alone    % x", d, i, together.Sent(got), single.Sent(want))
			}
		}
		if len(verdicts) < 4 {
			t.Errorf("%v: only %v", d, verdicts)
		}
	}
}

// Received packets are checked, and decrypted ones are not.
func TestReversePathPrecedesPolicies(t *testing.T) {
	a, _, out := secured(t, config(ipsec.Out, false))
	checkSources(a)
	r := a.Submit(2, to4("10.1.0.9"))[0] // from 192.0.2.1
	if r.Verdict != batch.Drop(batch.ReversePath) || out.Sequence() != 0 || a.Chunk.In[0].Origin != 2 {
		t.Errorf("%v, %d sequence numbers used, origin %#x", r.Verdict, out.Sequence(), a.Chunk.In[0].Origin)
	}
	wire := bytes.Clone(a.Sent(a.Submit(0, to4("10.1.0.9"))[0]))
	copy(wire[:6], mac1)
	b, _, in := secured(t, config(ipsec.In, false))
	checkSources(b)
	if r := b.Submit(2, wire)[0]; r.Verdict != batch.Drop(batch.ReversePath) || !bytes.Equal(b.Received(0), wire) {
		t.Errorf("ESP from where no route leads: %v", r.Verdict)
	}
	b.Net.Route(1, "198.51.100.1/32") // the other gateway's
	if r := b.Submit(2, wire)[0]; r.Verdict != batch.Forward(1) || in.Stats().Packets != 1 {
		t.Errorf("ESP from where a route leads: %v, %+v", r.Verdict, in.Stats())
	}
}

func TestProtectedPacketsAreCountedBySuite(t *testing.T) {
	hmac := func(c *ipsec.Config) {
		c.Suite, c.Key, c.AuthKey = "aes128-sha256", bytes.Repeat([]byte{7}, 16), bytes.Repeat([]byte{8}, 32)
	}
	for name, alter := range map[string]func(*ipsec.Config){"AEAD": func(*ipsec.Config) {}, "HMAC": hmac} {
		a, _, _ := secured(t, config(ipsec.Out, false), alter)
		count := func(w *world) (n, others int) {
			if n, others = w.Engine.ESP().Protected(); name == "HMAC" {
				return others, n
			}
			return n, others
		}
		r := a.Submit(0, to4("10.1.0.9"), to4("172.16.0.1"), to4("10.2.0.9"), to4("10.5.0.1"))
		if n, others := count(a); n != 2 || others != 0 {
			t.Errorf("%s: %d packets are encrypted, %d by another suite, want 2", name, n, others)
		}
		b, _, _ := secured(t, config(ipsec.In, false), alter)
		behind(b)
		sealed := bytes.Clone(a.Mem.Bytes()[r[0].Addr():][:r[0].Len()])
		b.Submit(wan, sealed, to4("172.16.0.1"))
		if n, others := count(b); n != 1 || others != 0 {
			t.Errorf("%s: %d packets are decrypted, %d by another suite, want 1", name, n, others)
		}
		b.Submit(wan, to4("172.16.0.1"))
		if n, others := count(b); n != 0 || others != 0 {
			t.Errorf("%s: %d and %d packets of plaintext are decrypted", name, n, others)
		}
	}
}
