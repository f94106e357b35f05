package ipsec

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// model is the window of RFC 4303 section 3.4.3 in its simplest form.
type model struct {
	size, top uint64
	seen      map[uint64]bool
}

func (m *model) fresh(seq uint64) bool {
	if m.size == 0 {
		return true
	}
	tooOld := m.top >= m.size && seq <= m.top-m.size
	return seq != 0 && !tooOld && !m.seen[seq]
}

func (m *model) accept(seq uint64) bool {
	if !m.fresh(seq) {
		return false
	}
	m.seen[seq] = true
	m.top = max(m.top, seq)
	return true
}

func TestReplayEqualsTheModel(t *testing.T) {
	for _, size := range []int{0, 1, 31, 32, 33, 63, 64, 65, 128, 1000, 1024, 4095, 4096} {
		for _, start := range []uint64{0, 1<<32 - 100, 1<<36 - 5, 1<<37 + 3, math.MaxUint64 - 300_000} {
			rnd := rand.New(rand.NewPCG(uint64(size), start))
			var w window
			w.start(size)
			m := model{size: uint64(size), seen: map[uint64]bool{}}
			if start > 0 {
				w.skip(start)
				m.top = start
				for i := range uint64(size) {
					m.seen[start-i] = true
				}
			}
			for range 20_000 {
				seq := m.top
				switch rnd.IntN(8) {
				case 0: // far ahead, or not at all
					seq += rnd.Uint64N(3) * uint64(size)
				case 1:
					seq += rnd.Uint64N(64)
				case 2, 3:
					seq++
				default: // in the window, or just below it
					seq -= min(seq, rnd.Uint64N(uint64(size)+40))
				}
				if got, want := w.fresh(seq), m.fresh(seq); got != want {
					t.Fatalf("window %d from %d, highest %d: fresh(%d) is %v, want %v", size, start, m.top, seq, got, want)
				}
				if rnd.IntN(4) == 0 {
					continue // a forged packet: nothing is noted
				}
				if got, want := w.accept(seq), m.accept(seq); got != want {
					t.Fatalf("window %d from %d, highest %d: accept(%d) is %v, want %v", size, start, m.top, seq, got, want)
				}
				if got := w.highest(); got != m.top {
					t.Fatalf("window %d: highest %d, want %d", size, got, m.top)
				}
			}
		}
	}
}

// Workers get the same packets in different orders: each is accepted once.
func TestConcurrentDuplicatesAreAcceptedOnce(t *testing.T) {
	const workers, numbers, size = 4, 30_000, 4096
	var w window
	w.start(size)
	accepted := make([]atomic.Uint32, numbers+1)
	var group sync.WaitGroup
	for g := range workers {
		group.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 5))
			for first := 1; first <= numbers; first += 64 {
				order := rnd.Perm(64)
				for _, i := range order {
					seq := first + i
					if seq <= numbers && w.accept(uint64(seq)) {
						accepted[seq].Add(1)
					}
				}
			}
		})
	}
	group.Wait()
	for seq := range accepted {
		if n := accepted[seq].Load(); n > 1 || n == 0 && seq > numbers-size && seq > 0 {
			t.Errorf("%d was accepted %d times", seq, n)
		}
	}
	// The whole last window, by all workers at once.
	var fresh window
	fresh.start(size)
	var total atomic.Uint32
	for g := range workers {
		group.Go(func() {
			for _, i := range rand.New(rand.NewPCG(uint64(g), 6)).Perm(size) {
				if fresh.accept(uint64(10_000 + i)) {
					total.Add(1)
				}
			}
		})
	}
	group.Wait()
	if total.Load() != size {
		t.Errorf("%d numbers were accepted %d times in all", size, total.Load())
	}
}

// The highest number is one that was received, for a reader beside the workers: also when the word of a newer block is stored, and the
// block is not the newest one yet.
func TestHighestNumberBesideWorkers(t *testing.T) {
	const workers, numbers = 3, 200_000
	var w window
	w.start(32) // a ring of few words
	var next atomic.Uint64
	var group sync.WaitGroup
	for g := range workers {
		group.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 7))
			for {
				seq := next.Add(1 + rnd.Uint64N(40))
				if seq > numbers {
					return
				}
				w.accept(seq)
			}
		})
	}
	for end := false; !end; {
		end = next.Load() > numbers
		if now := w.highest(); now > min(next.Load(), numbers) {
			t.Fatalf("highest %d, where none above %d was received", now, next.Load())
		}
	}
	group.Wait()
	if now := w.highest(); now > numbers || now < numbers-workers*40 {
		t.Errorf("highest %d, want nearly %d", now, numbers)
	}
}

// The highest number is right while a worker has stored a newer head, and not its block's number yet.
func TestHighestNumberWhileTheHeadIsNewer(t *testing.T) {
	for _, newer := range []uint64{1, 2, 5, 1 << 20} {
		var w window
		w.start(64)
		w.skip(1<<37 - 40) // the lower half of the block's number wraps
		block := w.newest.Load() + newer
		w.mark(block, 1<<3)
		if got, want := w.highest(), block*blockBits+3; got != want {
			t.Errorf("%d blocks newer: highest %d, want %d", newer, got, want)
		}
	}
}

// RFC 4303 appendix A2.2, in its own words.
func TestTheUpperHalfIsInferred(t *testing.T) {
	appendix := func(w uint32, th, tl, seql uint32) (uint32, bool) {
		if tl >= w-1 { // case A
			if seql >= tl-w+1 {
				return th, true
			}
			return th + 1, th+1 != 0
		}
		if seql >= tl-w+1 { // case B
			return th - 1, th != 0
		}
		return th, true
	}
	edges := []uint32{0, 1, 2, 30, 62, 63, 64, 65, 1000, 1 << 31, math.MaxUint32 - 64, math.MaxUint32 - 63, math.MaxUint32 - 62, math.MaxUint32 - 1, math.MaxUint32}
	for _, size := range []uint32{1, 64, 4096} {
		for _, th := range []uint32{0, 1, 7, math.MaxUint32} {
			for _, tl := range edges {
				for _, low := range edges {
					var w window
					w.start(int(size))
					w.skip(uint64(th)<<32 | uint64(tl))
					want, wantOK := appendix(size, th, tl, low)
					got, ok := w.infer(low)
					if ok != wantOK || ok && got != uint64(want)<<32|uint64(low) {
						t.Errorf("window %d at %#x:%#x, received %#x: got %#x, %v, want %#x:%#x, %v", size, th, tl, low, got, ok, want, low, wantOK)
					}
				}
			}
		}
	}
}

func TestConcurrentWorkersSendDistinctNumbers(t *testing.T) {
	const workers, each = 4, 5_000
	rnd := rand.New(rand.NewPCG(7, 7))
	out := newSA(t, config(rnd, "aes128gcm16", Tunnel, true), workers)
	p := ipPacket(rnd, true, 17, 64)
	var sent [workers][]uint32
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := range each {
				if i%100 == 50 { // as a device leases them
					first, n := out.Reserve(10)
					for seq := first; seq < first+uint64(n); seq++ {
						sent[w] = append(sent[w], uint32(seq))
					}
					continue
				}
				f := frame(p)
				at, n, e := out.Encapsulate(w, f, frameRoom, len(p))
				if e != OK {
					t.Errorf("encapsulating: %v", e)
					return
				}
				_, esp, _ := Inbound(f[at : at+n])
				sent[w] = append(sent[w], be32(f[at+esp+4:]))
			}
			if !slices.IsSorted(sent[w]) {
				t.Error("the numbers of a worker do not ascend")
			}
		})
	}
	group.Wait()
	all := slices.Concat(sent[:]...)
	slices.Sort(all)
	for i, seq := range all {
		if seq != uint32(i+1) {
			t.Fatalf("number %d stands in place %d: one was used twice, or lost", seq, i+1)
		}
	}
	if out.Sequence() != uint64(len(all)) {
		t.Errorf("the last number is %d of %d", out.Sequence(), len(all))
	}
}

func be32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }

func TestSequenceNumbersEnd(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 8))
	for _, c := range []struct {
		esn  bool
		last uint64
	}{{false, math.MaxUint32}, {true, math.MaxUint64}} {
		conf := config(rnd, "aes128gcm16", Tunnel, true)
		conf.ESN = c.esn
		out, in := pair(t, conf)
		p := ipPacket(rnd, true, 17, 10)
		if _, _, e := out.Encapsulate(0, frame(p), frameRoom, len(p)); e != OK || out.Sequence() != 1 {
			t.Fatalf("the first number is %d (%v), want 1", out.Sequence(), e)
		}
		out.Skip(c.last - 2)
		in.Skip(c.last - 2)
		out.Skip(5) // used long since
		for range 2 {
			roundTrip(t, rnd, out, in, true, 10)
		}
		if out.Sequence() != c.last || in.Sequence() != c.last {
			t.Errorf("the last number is %d sent, %d received, want %d", out.Sequence(), in.Sequence(), c.last)
		}
		for range 3 {
			f := frame(p)
			if _, _, e := out.Encapsulate(0, f, frameRoom, len(p)); e != OutStateSeqError {
				t.Errorf("ESN %v: a packet behind the last number: %v, want %v", c.esn, e, OutStateSeqError)
			}
			if !untouched(f, frameRoom, frameRoom+len(p)) {
				t.Error("a refused packet was changed")
			}
		}
		out.sequence.Store(c.last - 3)
		if first, n := out.Reserve(10); first != c.last-2 || n != 3 {
			t.Errorf("reserving beyond the end: got %d numbers from %d, want 3 from %d", n, first, c.last-2)
		}
	}
}

// After a restart all numbers up to the stored one are refused, and later ones are not.
func TestSkippedNumbersAreNotAccepted(t *testing.T) {
	for _, size := range []int{64, 1024, 4096} {
		for _, top := range []uint64{1, 31, 32, 63, 64, 5000, 1 << 33} {
			var w window
			w.start(size)
			w.accept(1)
			w.skip(top)
			for i := range min(top, uint64(size)+100) {
				if w.accept(top - i) {
					t.Fatalf("window %d, skipped to %d: %d was accepted", size, top, top-i)
				}
			}
			for i := range uint64(size) + 100 {
				if !w.accept(top + 1 + i) {
					t.Fatalf("window %d, skipped to %d: %d was refused", size, top, top+1+i)
				}
			}
		}
	}
}
