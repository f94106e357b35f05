package ipsec

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// Workers that expect packets and do not send all of them use no number twice.
func TestExpectedNumbersAreDistinct(t *testing.T) {
	const workers, rounds = 4, 2000
	out := newSA(t, config(rand.New(rand.NewPCG(7, 8)), "aes128gcm16", Tunnel, true), workers)
	var sent [workers][]uint64
	var group sync.WaitGroup
	for w := range workers {
		rnd := rand.New(rand.NewPCG(8, uint64(w)))
		group.Go(func() {
			for range rounds {
				expected := rnd.IntN(20)
				for range expected {
					out.Request(w, 1)
				}
				ReserveRequested([]*SA{out, out}, w)
				for range rnd.IntN(expected + 3) { // also more than were expected
					seq := out.next(&out.workers[w].reserved)
					if seq == 0 {
						t.Error("there are no numbers")
					}
					sent[w] = append(sent[w], seq)
				}
				out.Release(w)
			}
		})
	}
	group.Wait()
	used := map[uint64]bool{}
	for w := range sent {
		for i, seq := range sent[w] {
			if used[seq] || seq > out.Sequence() || i > 0 && seq <= sent[w][i-1] {
				t.Fatalf("worker %d has the number %d after %d, of %d", w, seq, sent[w][max(i-1, 0)], out.Sequence())
			}
			used[seq] = true
		}
	}
}

// Unused numbers leave no gap if a worker is alone.
func TestUnusedNumbersAreReturned(t *testing.T) {
	out := newSA(t, config(rand.New(rand.NewPCG(7, 9)), "aes128gcm16", Tunnel, false), 1)
	for want := uint64(1); want < 100; want += 3 {
		for range 10 {
			out.Request(0, 1)
		}
		ReserveRequested([]*SA{out, out}, 0) // twice, as where its packets are not in a row
		for i := range uint64(3) {
			if seq := out.next(&out.workers[0].reserved); seq != want+i {
				t.Fatalf("the number is %d, want %d", seq, want+i)
			}
		}
		out.Release(0)
		if out.Sequence() != want+2 {
			t.Fatalf("numbers up to %d are used, want %d", out.Sequence(), want+2)
		}
	}
}

// A limit ends a reservation, too.
func TestExpectedNumbersEndAtTheLimit(t *testing.T) {
	out := newSA(t, config(rand.New(rand.NewPCG(7, 10)), "aes128gcm16", Tunnel, false), 1)
	out.Limit(5)
	for range 10 {
		out.Request(0, 1)
	}
	ReserveRequested([]*SA{out}, 0)
	n := 0
	for range 10 {
		if seq := out.next(&out.workers[0].reserved); seq != 0 {
			if n++; seq > 5 {
				t.Fatalf("the number %d is beyond the limit", seq)
			}
		}
	}
	if n != 5 {
		t.Errorf("%d numbers, want 5", n)
	}
}
