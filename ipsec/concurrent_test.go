package ipsec

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// Workers receive the same packets concurrently: each packet is accepted once, and otherwise counted as
// a replay. Then the SA is killed while they run.
func TestWorkersShareAnInboundSA(t *testing.T) {
	const workers, packets = 4, 2_000
	for _, name := range []string{"aes128gcm16", "aes128-sha256", "aes128ctr-sha1"} {
		rnd := rand.New(rand.NewPCG(1, 1))
		c := config(rnd, name, Tunnel, true)
		c.ReplayWindow = 4096
		out := newSA(t, c, 1)
		c.Direction = In
		in := newSA(t, c, workers)
		sealed := make([][]byte, packets)
		for i := range sealed {
			p := ipPacket(rnd, true, 17, 40)
			setTOS(p, 0)
			f, at, n := encapsulated(t, out, p)
			sealed[i] = bytes.Clone(f[at : at+n])
		}
		passed := make([]atomic.Int32, packets)
		var killed atomic.Bool
		var group sync.WaitGroup
		for w := range workers {
			group.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(w), 3))
				f := make([]byte, frameLen)
				for i := range packets {
					i ^= rnd.IntN(4) // about at the same time as the others
					copy(f[frameRoom:], sealed[i])
					_, _, e := in.Decapsulate(w, f, frameRoom, len(sealed[i]))
					switch {
					case e == OK:
						passed[i].Add(1)
					case e == InStateInvalid && killed.Load():
					case e != InStateSeqError:
						t.Errorf("%s: packet %d: %v", name, i, e)
					}
				}
				killed.Store(true)
				in.Kill()
			})
		}
		group.Wait()
		total := uint64(0)
		for i := range passed {
			n := passed[i].Load()
			if n > 1 {
				t.Errorf("%s: packet %d passed %d times", name, i, n)
			}
			total += uint64(n)
		}
		if got := in.Stats(); got.Packets != total || total < packets/2 || got.ICVFailures != 0 {
			t.Errorf("%s: %d packets passed, counted %+v", name, total, got)
		}
		in.Zero()
	}
}
