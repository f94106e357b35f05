package dataplane

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/umem"
)

// A word counts the packets and bytes of a worker at any rate between two flushes, and frames that are uncounted with the
// length that they have without their VLAN.
func TestTallyHoldsPacketsAndBytes(t *testing.T) {
	const most = 1<<23 - 1
	if seconds := flushInterval.Seconds(); most/seconds < 500e6 {
		t.Errorf("a tally holds %d packets, too few for %v s", most, seconds)
	}
	for _, c := range []struct {
		tally          packedTally
		packets, bytes uint64
	}{
		{0, 0, 0}, {talliedTouched, 0, 0}, {packed(1, 60), 1, 60}, {talliedTouched + packed(most, 9018*7), most, 9018 * 7},
		{packed(2, 128) - packed(1, 64), 1, 64}, {packed(1, 60) - packed(1, 64), 0, math.MaxUint64 - 3}, {packed(3, 180) - packed(1, 184), 2, math.MaxUint64 - 3},
	} {
		if c.tally.packets() != c.packets || c.tally.bytes() != c.bytes {
			t.Errorf("%#x: %d packets, %d bytes, want %d, %d", uint64(c.tally), c.tally.packets(), c.tally.bytes(), c.packets, c.bytes)
		}
	}
}

// Readers see the packets of a busy worker after flushInterval. A port without AddPort has no tally.
func TestTalliesAreFlushed(t *testing.T) {
	l := newLogicalPorts(fib.New(1).VLANs, 2048)
	l.all[7].Store(new(logicalPort))
	if l.tally(8) != nil || len(l.touched) != 0 {
		t.Error("port 8 has a tally")
	}
	now, want := time.Hour, uint64(0)
	for range 3 {
		l.flushOld(now)
		for i := range 5 {
			l.tally(7).rx += packed(1, 60)
			l.tally(7).tx += packed(2, 200)
			if l.flushOld(now + flushInterval - 1 - time.Duration(i)); l.get(7).rxPackets.Load() != want {
				t.Fatalf("%d packets before the interval, want %d", l.get(7).rxPackets.Load(), want)
			}
		}
		now, want = now+flushInterval, want+5
		l.flushOld(now)
		p := l.get(7)
		if rx, bytes := p.rxPackets.Load(), p.rxBytes.Load(); rx != want || bytes != 60*want {
			t.Errorf("%d packets, %d bytes received, want %d, %d", rx, bytes, want, 60*want)
		}
		if tx, bytes := p.txPackets.Load(), p.txBytes.Load(); tx != 2*want || bytes != 200*want {
			t.Errorf("%d packets, %d bytes transmitted, want %d, %d", tx, bytes, 2*want, 200*want)
		}
	}
	if len(l.touched) != 0 || l.tallies[7] != (logicalTally{}) {
		t.Errorf("after a flush: %v, %v", l.touched, l.tallies[7])
	}
}

// On a gateway, the worker adds the tag of frames that have room for it, drops others, and keeps the order. Its chunk has more
// packets than are prepared together.
func TestWorkerAddsTags(t *testing.T) {
	w := benchWorker(t, 4, true)
	w.fib.VLANs.LeaveTags()
	c, noRoom := w.free[0], map[int]bool{0: true, 70: true, 71: true, benchChunk - 1: true}
	if c.N = w.rx.queues[0].Receive(c.In); c.N != benchChunk {
		t.Fatal(c.N)
	}
	want, lost := []batch.Frame{}, 0
	for i := range c.N {
		port := uint16(1 + i%4)
		c.In[i].Origin = batch.From(port)
		at := c.In[i].Addr
		if noRoom[i] {
			at = at/umem.FrameSize*umem.FrameSize + uint32(i%4)
			lost++
		} else {
			want = append(want, batch.Frame{Addr: at - fib.TagLen, Len: 64, Origin: c.In[i].Origin})
		}
		c.Out[i] = batch.ForwardTo(port, at, 60)
	}
	for range 2 { // the second time, all VLANs are in tallies
		out := append([]batch.Result(nil), c.Out[:c.N]...)
		w.tx[0].n = 0
		w.dispatch(c)
		copy(c.Out, out)
	}
	got := w.tx[0].frames[:w.tx[0].n]
	if !slices.Equal(got, want) {
		t.Errorf("%d frames are listed, want %d: %v", len(got), len(want), got)
	}
	for i, f := range got {
		b := w.mem[f.Addr:][:f.Len]
		if tag := [4]byte(b[macsLen:]); tag != [4]byte{0x81, 0, 0, byte(w.tx[0].ports[i])} {
			t.Fatalf("frame %d has the tag %x", i, tag)
		}
	}
	w.drops.flush(w.counters)
	w.logical.flush()
	var drops, sent uint64
	for port := uint16(1); port <= 4; port++ {
		drops += w.logical.get(port).drops[batch.PortDown].Load()
		sent += w.logical.get(port).txPackets.Load()
	}
	if drops != uint64(2*lost) || sent != uint64(2*len(want)) {
		t.Errorf("%d dropped, %d sent; want %d, %d", drops, sent, 2*lost, 2*len(want))
	}
}
