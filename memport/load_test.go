package memport

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/require"
)

// schedule is packets at equal times. It also records departures.
type schedule struct {
	interval  time.Duration
	count     int
	next      int
	lost      []time.Duration
	delivered []time.Duration // arrivals
	latency   []time.Duration
}

func (s *schedule) Next(times []time.Duration) int {
	n := min(len(times), s.count-s.next)
	for i := range times[:n] {
		times[i] = time.Duration(s.next+i) * s.interval
	}
	s.next += n
	return n
}

func (s *schedule) Lost(times []time.Duration) { s.lost = append(s.lost, times...) }

func (s *schedule) Departed(now time.Duration, arrivals []time.Duration) {
	for _, t := range arrivals {
		s.delivered, s.latency = append(s.delivered, t), append(s.latency, now-t)
	}
}

// newOffered returns a pair that is offered a load, without a NIC.
func newOffered(t *testing.T, s *schedule, prepared int) (*pair, *Load) {
	t.Helper()
	p := newPair(t)
	p.in.Play([][]byte{make([]byte, 60), make([]byte, 100)}, -1)
	if prepared > 0 {
		p.in.Prepare(prepared)
	}
	l := Offer(p.in, p.out, s, s)
	p.in.hasNIC, p.out.hasNIC = true, true
	return p, l
}

func TestLoadArrivesOnTime(t *testing.T) {
	s := &schedule{interval: time.Microsecond, count: 1000}
	p, l := newOffered(t, s, 0)
	p.in.Refill()
	received := func() int { n, _ := p.turn(t, 1500); return n }
	p.in.offer(-1) // before the begin
	if n := received(); n != 0 {
		t.Errorf("%d packets before the begin", n)
	}
	for _, tt := range []struct {
		now  time.Duration
		want int
	}{{0, 1}, {999, 0}, {1000, 1}, {1999, 0}, {20_000, 19}, {20_000, 0}, {21_500, 1}} {
		if p.in.offer(tt.now); received() != tt.want {
			t.Errorf("%v: not %d packets", tt.now, tt.want)
		}
	}
	if len(s.lost) != 0 || l.Lag() != (Lag{18 * time.Microsecond, 500, 0}) {
		t.Errorf("%d lost, lag %v", len(s.lost), l.Lag())
	}
}

// The worker does not receive for a while: a ring of packets waits, and further ones are lost.
func TestPacketsAreLostWhenTheRingIsFull(t *testing.T) {
	for _, prepared := range []int{0, 4000} {
		s := &schedule{interval: time.Microsecond, count: 4000}
		p, l := newOffered(t, s, prepared)
		p.in.Refill()
		for now := time.Duration(0); !l.Ended(); now += 10 * time.Microsecond {
			p.in.offer(now)
			if now > time.Second {
				t.Fatal("the load does not end")
			}
		}
		if len(s.lost) != 4000-RingSize || s.lost[0] != RingSize*time.Microsecond || !slices.IsSorted(s.lost) {
			t.Fatalf("%d lost, the first at %v", len(s.lost), s.lost[0])
		}
		l.Begin(batch.Clock())
		for len(s.delivered) < RingSize {
			p.turn(t, 300)
			p.out.step()
		}
		if !slices.IsSorted(s.delivered) || s.delivered[0] != 0 || s.delivered[RingSize-1] != (RingSize-1)*time.Microsecond {
			t.Errorf("delivered: %v to %v", s.delivered[0], s.delivered[len(s.delivered)-1])
		}
		if n := l.Delivered() + uint64(len(s.lost)); n != 4000 {
			t.Errorf("%d packets were delivered or lost", n)
		}
		p.turn(t, 1)
		p.checkFrames(t)
	}
}

// A NIC that receives a burst each 100 µs cannot offer a packet each µs.
func TestSlowNICIsBehind(t *testing.T) {
	s := &schedule{interval: time.Microsecond, count: 1000}
	p, l := newOffered(t, s, 0)
	p.in.Refill()
	for now := time.Duration(0); !l.Ended(); now += 100 * time.Microsecond {
		p.in.offer(now)
	}
	if lag := l.Lag(); lag.Last < 400*time.Microsecond || lag.Behind < 1400*time.Microsecond {
		t.Errorf("%+v", lag)
	}
}

// After a stall of the NIC, packets have their scheduled times.
func TestStallOfNICIsLatency(t *testing.T) {
	s := &schedule{interval: time.Microsecond, count: 2000}
	p, l := newOffered(t, s, 0)
	p.in.Refill()
	p.in.offer(0)
	for range 100 {
		p.in.offer(1000 * time.Microsecond)
	}
	for n := 0; n < 1001; {
		got, _ := p.turn(t, 64)
		n += got
	}
	if lag := l.Lag(); lag.Longest != 999*time.Microsecond || lag.Last != 0 || lag.Behind != 0 || len(s.lost) != 0 {
		t.Errorf("lag %v, %d lost", lag, len(s.lost))
	}
	l.Begin(batch.Clock() - time.Millisecond)
	for len(s.delivered) < 1001 {
		p.out.step()
	}
	for i, latency := range s.latency {
		if s.delivered[i] != time.Duration(i)*time.Microsecond || latency < time.Millisecond-s.delivered[i] {
			t.Fatalf("packet %d arrived at %v, with a latency of %v", i, s.delivered[i], latency)
		}
	}
}

// Packets of any length arrive unchanged, once each, whichever NICs serve the queues.
func TestLoadOfPreparedFrames(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	frames := anyFrames(rnd)
	for _, nics := range []int{1, 2} {
		for _, prepared := range []bool{false, true} {
			const count = 3000
			p := newPair(t)
			p.in.Play(frames, -1)
			if prepared {
				p.in.Prepare(count)
			}
			s := &schedule{interval: 2 * time.Microsecond, count: count}
			d := &schedule{}
			l := Offer(p.in, p.out, s, d)
			received, sent := 0, 0
			check := func(got []byte) {
				want := frames[received%len(frames)]
				if !bytes.Equal(got, want[:min(len(want), len(got))]) || len(got) < min(len(want), 1700) {
					t.Fatalf("packet %d: % x, want % x", received, got, want)
				}
				received++
			}
			var running []*NIC
			for i := range nics {
				queues := [][]*Queue{{p.in, p.out}, {p.in}, {p.out}}[nics-1+i]
				c, err := StartNIC(affinity.Any, queues...)
				require.NoError(t, err)
				running = append(running, c)
			}
			l.Begin(batch.Clock())
			chunk := make([]batch.Frame, 256)
			for !l.Ended() || received+len(s.lost) < count {
				p.in.Refill()
				n := p.in.Receive(chunk)
				for _, f := range chunk[:n] {
					check(p.mem.Bytes()[f.Addr:][:f.Len])
				}
				sent += p.out.Transmit(chunk[:n])
				p.out.Reclaim()
				runtime.Gosched()
			}
			for l.Delivered() < uint64(sent) {
				runtime.Gosched()
			}
			for _, c := range running {
				c.Stop()
			}
			if received+len(s.lost) != count || len(d.delivered) != received || sent != received {
				t.Errorf("%d received, %d lost, %d sent, %d recorded, of %d", received, len(s.lost), sent, len(d.delivered), count)
			}
			for i, l := range d.latency {
				if l < 0 {
					t.Fatalf("packet %d left %v before it arrived", i, -l)
				}
			}
			p.checkFrames(t)
		}
	}
}

// counter counts without memory.
type counter struct{ next, lost, delivered int }

func (c *counter) Next(times []time.Duration) int {
	for i := range times {
		times[i] = time.Duration(c.next)
		c.next++
	}
	return len(times)
}
func (c *counter) Lost(times []time.Duration)                      { c.lost += len(times) }
func (c *counter) Departed(_ time.Duration, times []time.Duration) { c.delivered += len(times) }

func TestLoadDoesNotAllocate(t *testing.T) {
	for _, prepared := range []int{0, 5000} {
		p := newPair(t)
		p.in.Play([][]byte{make([]byte, 60), make([]byte, 61)}, -1)
		if prepared > 0 {
			p.in.Prepare(prepared)
		}
		c := &counter{}
		l := Offer(p.in, p.out, c, c)
		p.in.hasNIC, p.out.hasNIC = true, true
		l.Begin(batch.Clock())
		chunk := make([]batch.Frame, 256)
		if n := testing.AllocsPerRun(500, func() {
			p.in.Refill()
			p.in.step()
			p.out.Transmit(chunk[:p.in.Receive(chunk)])
			p.out.step()
			p.out.Reclaim()
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
		if c.delivered < 500 {
			t.Errorf("%d packets delivered", c.delivered)
		}
	}
}
