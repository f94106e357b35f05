package ipsec

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// A packet that the host has not read has the lengths, numbers and counters of one that Prepare has.
func TestUnreadPacketsEqualPreparedOnes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 1))
	for _, suite := range []string{"aes128gcm16", "chacha20poly1305", "aes128ctr-sha1", "aes128-sha256", "aes256-sha512", "null-sha256"} {
		for v6 := range 2 {
			c := config(rnd, suite, Tunnel, v6 == 0)
			a, b := newSA(t, c, 1), newSA(t, c, 1)
			for n := 20; n < 1500; n += 1 + rnd.IntN(50) {
				buf := make([]byte, 4096)
				copy(buf[512:], []byte{0x45, 0, byte(n >> 8), byte(n)})
				var o Outgoing
				if e := a.Prepare(0, buf, 512, n, &o); e != OK {
					t.Fatal(e)
				}
				seq, taken, e := b.NumberUnread(0, 1, uint64(n))
				front, header := b.HeaderLens()
				if e != OK || taken != 1 || seq != o.Seq || 512-front != o.At || o.ESP+header != 512 || b.ESPLen(n) != o.At+o.Len-o.ESP {
					t.Fatalf("%s, %d bytes: number %d (%d, %v), %d bytes in front, %d of ESP; want %+v", suite, n, seq, taken, e, front, b.ESPLen(n), o)
				}
			}
			if a.Stats() != b.Stats() {
				t.Errorf("%s: counted %+v, want %+v", suite, b.Stats(), a.Stats())
			}
		}
	}
}

// Devices get no number that a job has no room for, and no nonce of another base than theirs.
func TestNumbersThatDevicesCannotWrite(t *testing.T) {
	c := config(rand.New(rand.NewPCG(4, 2)), "aes128gcm16", Tunnel, true)
	c.ESN, c.Nonces = true, &Nonces{}
	s := newSA(t, c, 1)
	expect := func(what string, want int) {
		t.Helper()
		if _, n, e := s.NumberUnread(0, 2, 200); n != want || e != OK {
			t.Errorf("%s: %d numbers, error %v, want %d", what, n, e, want)
		}
		s.Release(0)
	}
	expect("at first", 2)
	base := c.Nonces.Renew()
	expect("with another base", 0)
	c.Nonces.SetDeviceBase(base)
	expect("when devices have it", 2)
	s.Skip(maxDeviceSeq - 2)
	expect("the last ones", 2)
	expect("behind them", 0)
}

// An SA that is too old, or has no numbers left, refuses packets as Prepare does.
func TestUnreadPacketsMeetTheLimits(t *testing.T) {
	c := config(rand.New(rand.NewPCG(4, 3)), "aes128gcm16", Tunnel, true)
	c.Lifetime.Hard.Packets = 3
	s := newSA(t, c, 1)
	for i := range 5 {
		want := OK
		if i >= 3 {
			want = OutStateExpired
		}
		if _, _, e := s.NumberUnread(0, 1, 100); e != want {
			t.Errorf("packet %d of 3: %v, want %v", i+1, e, want)
		}
	}
	c.Lifetime.Hard, c.Clock = Limits{Age: time.Second}, &Clock{}
	s = newSA(t, c, 1)
	c.Clock.Set(2 * time.Second)
	if _, _, e := s.NumberUnread(0, 1, 100); e != OutStateExpired {
		t.Errorf("too old: %v", e)
	}
	c.Lifetime.Hard = Limits{}
	s = newSA(t, c, 1)
	s.Skip(1<<32 - 1)
	if _, _, e := s.NumberUnread(0, 1, 100); e != OutStateSeqError {
		t.Errorf("without numbers: %v", e)
	}
}

// The first worker that receives packets of an SA counts them beside the window, the others in fields of their own. None is lost, and
// no two workers write to the same counters.
func TestCountsOfWorkers(t *testing.T) {
	const workers, times = 4, 1000
	for _, direction := range []Direction{In, Out} {
		c := config(rand.New(rand.NewPCG(4, 5)), "aes128gcm16", Tunnel, true)
		c.Direction = direction
		s := newSA(t, c, workers)
		var group sync.WaitGroup
		var counts [workers]*Counts
		for w := range workers {
			group.Go(func() {
				for range times {
					counts[w] = s.Counts(w)
					counts[w].Add(2, 100)
					s.Count(w, 1, 50)
				}
			})
		}
		group.Wait()
		if got, want := s.Stats(), (Stats{Packets: 3 * workers * times, Bytes: 150 * workers * times}); got != want {
			t.Errorf("%v: counted %+v, want %+v", direction, got, want)
		}
		shared := 0
		for w, own := range counts {
			if own == &s.mainCounts {
				shared++
			} else if own != &s.workers[w].Counts {
				t.Errorf("%v: worker %d counts for another one", direction, w)
			}
		}
		if want := map[Direction]int{In: 1, Out: 0}[direction]; shared != want {
			t.Errorf("%v: %d workers count beside the window, want %d", direction, shared, want)
		}
	}
}
