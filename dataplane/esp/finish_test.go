package esp_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

func TestFinishDropsGarbageFromDevice(t *testing.T) {
	a, _, _ := secured(t, config(ipsec.Out, false))
	b, _, _ := secured(t, config(ipsec.In, false))
	rnd := rand.New(rand.NewPCG(9, 9))
	refused, jobs, c := 0, make([]esp.Job, 1), b.Chunk
	for range 3000 {
		wire := bytes.Clone(a.Sent(a.Submit(0, to4("10.1.0.9"))[0]))
		c.In[0] = batch.Frame{Addr: umem.DataOffset, Len: uint16(len(wire)), Origin: 2}
		copy(b.Mem.Bytes()[c.In[0].Addr:], wire)
		if b.Engine.ESP().Begin(c.In[:1], c.Out[:1], jobs, ipsec.NoKeyIndex) != 1 || jobs[0].Kind != esp.Open {
			t.Fatalf("%v, %+v", c.Out[0].Verdict, jobs[0])
		}
		body := b.Mem.Bytes()[c.In[0].Addr+packet.EthernetLen:][:len(wire)-packet.EthernetLen][packet.IPv4Len+8+8:]
		for i := range body {
			body[i] = byte(rnd.Uint32())
		}
		version := rnd.IntN(16)
		body[0] = byte(version)<<4 | 5
		body[2], body[4], body[3], body[5] = 0, 0, byte(rnd.IntN(len(body)+8)), byte(rnd.IntN(len(body)+8)) // lengths of both families
		c.Out[0] = batch.ForwardTo(1, c.In[0].Addr, c.In[0].Len)
		b.Engine.ESP().Finish(c.In[:1], c.Out[:1], jobs)
		if c.Out[0].Verdict == batch.Drop(batch.XfrmInStateProtoError) {
			refused++
		} else if version != 4 && version != 6 {
			t.Fatalf("version %d: %v", version, c.Out[0].Verdict)
		}
	}
	if refused > 2900 {
		t.Errorf("%d of 3000 are refused: too few lengths fit for the test", refused)
	}
}

// Decide ignores earlier results, and gives those of Submit without applying policies again.
func TestDecideSkipsPolicies(t *testing.T) {
	back := func(dst string) []byte { return testutil.UDP4("10.1.0.1", dst, 1000, 53) }
	for name, frames := range map[string][][]byte{
		"router":  {back("10.1.0.9"), to4("10.1.0.9"), to6("fd01::9"), back("10.2.0.9"), back("10.4.0.1"), back("10.7.0.1"), back("10.1.0.9")[:30], nil},
		"gateway": {to4("10.1.0.9"), to6("fd01::9"), to4("10.2.0.9"), to4("10.1.7.7"), to4("10.4.0.1"), to4("10.7.0.1"), to4("172.16.0.1")},
	} {
		gateway := name == "gateway"
		var a, b *world
		if gateway { // the first three are sealed
			a, _, _ = secured(t, config(ipsec.Out, false))
			b, _, _ = secured(t, config(ipsec.Out, false))
		} else {
			a, b = newWorld(t), newWorld(t)
			checkSources(a)
			checkSources(b)
		}
		want := slices.Clone(a.Submit(1, frames...))
		b.Fill(1, frames...)
		in, out := b.Chunk.In[:len(frames)], b.Chunk.Out[:len(frames)]
		if gateway {
			if n := b.Engine.ESP().Begin(in, out, make([]esp.Job, len(in)), 0); n != 0 { // it has no keys
				t.Fatalf("%d packets are a device's: the test is wrong", n)
			}
		}
		for i := range out {
			out[i] = batch.Result{Verdict: batch.Forward(7)} // of another chunk
		}
		b.Engine.Decide(in, out)
		forwarded := 0
		for i, r := range out {
			if r != want[i] {
				t.Errorf("%s, packet %d: %v, %+v, want %v, %+v", name, i, r.Verdict, r, want[i].Verdict, want[i])
			} else if r.Verdict.Action() == batch.ActionForward {
				forwarded++
				if !bytes.Equal(a.Sent(r), b.Sent(r)) {
					t.Errorf("%s, packet %d leaves as\n  % x\nwant\n  % x", name, i, b.Sent(r), a.Sent(r))
				}
			}
		}
		if forwarded < 2 || forwarded == len(out) {
			t.Errorf("%s: %d of %d packets are forwarded", name, forwarded, len(out))
		}
	}
}
