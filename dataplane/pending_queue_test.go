package dataplane

import (
	"fmt"
	"hash/maphash"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/testutil"
)

// unresolved is packets to destinations without a neighbor, which do not have both buckets in common.
type unresolved struct {
	q      pendingQueue
	mem    []byte
	frames []batch.Frame // by destination
	asked  map[netip.Addr]int
}

func newUnresolved(destinations, limit int) *unresolved {
	u := &unresolved{asked: map[netip.Addr]int{}}
	u.q = pendingQueue{limit: limit, seed: maphash.MakeSeed(), resolve: func(_ uint32, dst netip.Addr) { u.asked[dst]++ }}
	taken := map[buckets]bool{}
	for i := 1; len(u.frames) < destinations; i++ {
		f := testutil.UDP4("192.0.2.1", fmt.Sprintf("10.1.%d.%d", i/250, 1+i%250), 1, 2)
		if in := u.q.bucketsOf(neighbor{1, destination(f)}); !taken[in] {
			taken[in] = true
			u.frames = append(u.frames, batch.Frame{Addr: uint32(len(u.mem)), Len: uint16(len(f))})
			u.mem = append(u.mem, f...)
		}
	}
	return u
}

// add adds packets to a destination, and returns how many were dropped.
func (u *unresolved) add(to, packets int) (dropped int) {
	for range packets {
		if _, full := u.q.addUnresolved(u.mem, u.frames[to], 1, 0); full {
			dropped++
		}
	}
	return dropped
}

// Five destinations without a neighbor leave places for a sixth. A neighbor is asked for once, whatever the number of packets.
func TestFiveUnresolvedDestinationsLeavePlaces(t *testing.T) {
	for limit, share := range map[int]int{pendingSize: 101, 256: 51, 128: 25, 5: 1} {
		u := newUnresolved(6, limit)
		for to := range 5 {
			if got := u.add(to, 200); got != 200-share {
				t.Errorf("%d of 200 packets to destination %d are dropped, with %d places", got, to, limit)
			}
		}
		if got, want := u.add(5, 1), max(0, 1-(limit-5*share)); got != want {
			t.Errorf("%d packets to the sixth are dropped, with %d places, want %d", got, limit, want)
		}
		for dst, n := range u.asked {
			if n != 1 {
				t.Errorf("%v is asked for %d times", dst, n)
			}
		}
		for u.q.n > 0 {
			u.q.pop()
		}
		if u.q.places != (pendingQueue{}).places {
			t.Error("an empty queue has used places")
		}
	}
}

// A destination that has a bucket in common with a flooded one has its share.
func TestDestinationBesideAFloodedOneIsAskedFor(t *testing.T) {
	u := newUnresolved(2000, pendingSize)
	u.add(0, 200)
	of := func(to int) buckets {
		return u.q.bucketsOf(neighbor{1, destination(u.mem[u.frames[to].Addr:][:u.frames[to].Len])})
	}
	tried := 0
	for to := 1; to < 2000; to++ {
		if first, b := of(0), of(to); (first[0] == b[0]) == (first[1] == b[1]) {
			continue
		}
		tried++
		if dropped := u.add(to, 5); dropped > 0 {
			t.Errorf("%d of 5 packets are dropped beside a flooded destination", dropped)
		}
	}
	t.Logf("%d destinations with one bucket in common", tried)
}

// BenchmarkUnresolvedFlood is the cost of a packet to a destination whose share is used up, while four others have used up theirs.
func BenchmarkUnresolvedFlood(b *testing.B) {
	u := newUnresolved(5, pendingSize)
	for to := range u.frames {
		u.add(to, pendingShare)
	}
	for b.Loop() {
		if u.add(4, 1) != 1 {
			b.Fatal("the share is not used up")
		}
	}
}

// A packet with two ESP headers, of which a retry removes the outer one, waits without it for the SA of the inner one.
func TestDecryptedPacketWaitsForTheSAOfItsContent(t *testing.T) {
	q := pendingQueue{limit: pendingSize, seed: maphash.MakeSeed()}
	q.addUnknownSA(batch.Frame{Addr: 2048, Len: 200}, 0)
	c := &batch.Chunk{In: make([]batch.Frame, 4), Out: make([]batch.Result, 4)}
	drop := func(f batch.Frame, r batch.Reason) { t.Errorf("%v is dropped: %v", f, r) }
	q.retry(c, 1, 0, drop)
	c.In[0].Addr, c.In[0].Len, c.Out[0].Verdict = 2100, 148, unknownSA
	q.finishRetry(nil, c)
	c.N = 0
	if q.retry(c, 2, 0, drop); c.N != 1 || c.In[0].Addr != 2100 || c.In[0].Len != 148 {
		t.Errorf("the next retry has %d packets: %+v", c.N, c.In[0])
	}
}
