package ipsec

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// Numbers of packets that are expected to be of an SA are consecutive, and no other packet has one of them.
func TestReservedUnreadNumbersAreDistinct(t *testing.T) {
	const workers, rounds = 4, 2000
	c := config(rand.New(rand.NewPCG(5, 1)), "aes128gcm16", Tunnel, true)
	c.ESN = true
	s := newSA(t, c, workers)
	var sent [workers][]uint64
	var group sync.WaitGroup
	for w := range workers {
		rnd := rand.New(rand.NewPCG(5, uint64(w)))
		group.Go(func() {
			for range rounds {
				n := 1 + rnd.IntN(40)
				first, ok := s.ReserveUnread(n)
				if !ok {
					t.Error("there are no numbers")
					return
				}
				for i := range uint64(n) {
					if rnd.IntN(4) > 0 { // the device has sealed the packet, or the host does
						if s.Assign(w, first+i); rnd.IntN(2) == 0 || s.next(&s.workers[w].reserved) == first+i {
							sent[w] = append(sent[w], first+i)
						}
						s.workers[w].reserved = reservation{}
					}
				}
				s.Request(w, 3)
				ReserveRequested([]*SA{s}, w)
				for range rnd.IntN(5) {
					sent[w] = append(sent[w], s.next(&s.workers[w].reserved))
				}
				s.Release(w)
			}
		})
	}
	group.Wait()
	used := map[uint64]bool{}
	for w := range sent {
		for i, seq := range sent[w] {
			if seq == 0 || used[seq] || seq > s.Sequence() || i > 0 && seq <= sent[w][i-1] {
				t.Fatalf("worker %d has the number %d after %d, of %d", w, seq, sent[w][max(i-1, 0)], s.Sequence())
			}
			used[seq] = true
		}
	}
}

// Numbers are reserved for packets that the host has not read only if devices can write all of them, and the SA may encrypt so
// many packets.
func TestUnreadNumbersAreRefused(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 2))
	esn := config(rnd, "aes128gcm16", Tunnel, true)
	esn.ESN, esn.Nonces = true, &Nonces{}
	short, limited := esn, esn
	short.ESN, limited.Lifetime.Hard.Packets = false, 1000
	for name, x := range map[string]struct {
		c      Config
		change func(s *SA)
		ok     bool
	}{
		"first":            {esn, func(*SA) {}, true},
		"32 bits":          {short, func(*SA) {}, true},
		"last of 48 bits":  {esn, func(s *SA) { s.Skip(maxDeviceSeq - 10) }, true},
		"behind them":      {esn, func(s *SA) { s.Skip(maxDeviceSeq - 9) }, false},
		"last of 32 bits":  {short, func(s *SA) { s.Skip(1<<32 - 11) }, true},
		"one too few":      {short, func(s *SA) { s.Skip(1<<32 - 10) }, false},
		"none":             {short, func(s *SA) { s.Skip(1<<32 - 1) }, false},
		"limited packets":  {limited, func(*SA) {}, false},
		"killed":           {esn, func(s *SA) { s.Kill() }, false},
		"inbound":          {esn, func(s *SA) { s.direction = In }, false},
		"new nonces":       {esn, func(s *SA) { s.nonces.Base(); s.nonces.Renew() }, false},
		"below its limit":  {short, func(s *SA) { s.limit.Store(10) }, true},
		"beyond its limit": {short, func(s *SA) { s.limit.Store(9) }, false},
	} {
		x.c.Nonces = &Nonces{}
		s := newSA(t, x.c, 1)
		x.change(s)
		before := s.sequence.Load()
		first, ok := s.ReserveUnread(10)
		switch {
		case ok != x.ok:
			t.Errorf("%s: reserved: %v", name, ok)
		case ok && (first != before+1 || s.sequence.Load() != before+10):
			t.Errorf("%s: from %d on, after %d", name, first, before)
		case !ok && s.sequence.Load() != before:
			t.Errorf("%s: refused, and %d numbers are used", name, s.sequence.Load()-before)
		}
	}
}

// A packet that the host encrypts has the number that was reserved for it.
func TestAssignedNumberIsThePackets(t *testing.T) {
	s := newSA(t, config(rand.New(rand.NewPCG(5, 3)), "aes128gcm16", Tunnel, true), 1)
	first, _ := s.ReserveUnread(10)
	buf := make([]byte, 4096)
	copy(buf[512:], []byte{0x45, 0, 0, 100})
	var o Outgoing
	if s.Assign(0, first+4); s.Prepare(0, buf, 512, 100, &o) != OK || o.Seq != first+4 {
		t.Errorf("number %d, want %d", o.Seq, first+4)
	}
	s.Assign(0, first+6)
	if seq, n, e := s.NumberUnread(0, 1, 100); seq != first+6 || n != 1 || e != OK {
		t.Errorf("number %d (%d, %v), want %d", seq, n, e, first+6)
	}
	if s.Release(0); s.Sequence() != first+9 {
		t.Errorf("numbers up to %d are used, want %d", s.Sequence(), first+9)
	}
}
