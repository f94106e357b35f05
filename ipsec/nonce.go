package ipsec

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Nonces says which nonces outbound SAs use: a packet's is Base plus its sequence number,
// modulo 2^64. So one SA uses no nonce twice, and two runs of a router that begin with the
// same sequence number, as their state was lost, restored or never shared, use others.
//
// A base is drawn at random, NonceSpacing away from those known to have been used with the
// same keys. The nonces of two runs that do not know each other overlap with a probability
// of (m + n) / 2^64, where m and n are their packets by one key; docs/ipsec.md has the sums.
//
// SAs with one key need the same Nonces. It may be renewed while workers use it. The zero
// Nonces draws a base when it is first used.
type Nonces struct {
	base  atomic.Uint64
	drawn atomic.Bool

	mu   sync.Mutex
	used []uint64 // bases not to come near again
}

// NonceSpacing is the least distance of two bases that know of each other: with fewer packets by
// a key, which a million a second send in nine years, their nonces cannot overlap.
const NonceSpacing = 1 << 48

// processNonces is for associations without any of their own: those of one process
// do not repeat each other's.
var processNonces Nonces

// Base returns what is added to sequence numbers now.
func (n *Nonces) Base() uint64 {
	if !n.drawn.Load() {
		n.begin()
	}
	return n.base.Load()
}

// begin draws the first base.
func (n *Nonces) begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.drawn.Load() {
		n.draw(randomBase)
	}
}

// Avoid lists bases that were used before, by other runs of the router.
func (n *Nonces) Avoid(bases ...uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.used = append(n.used, bases...)
}

// Renew draws another base, for sequence numbers that are taken from now on. It is called
// at every start, and whenever the memory of the router may exist twice.
func (n *Nonces) Renew() (base uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.draw(randomBase)
}

// draw takes bases until one is far from all that are known. Base 0 always is: sequence
// numbers once were nonces.
func (n *Nonces) draw(random func() uint64) uint64 {
	for {
		base := random()
		near := func(used uint64) bool { return base-used < NonceSpacing || used-base < NonceSpacing }
		if near(0) || slices.ContainsFunc(n.used, near) {
			continue
		}
		n.used = append(n.used, base)
		n.base.Store(base)
		n.drawn.Store(true)
		return base
	}
}

// randomBase mixes the time into the kernel's random bytes: two virtual machines that begin with
// one snapshot have the same of these until their kernels notice.
func randomBase() uint64 {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return mixBase(b[:], time.Now().UnixNano())
}

func mixBase(random []byte, nanoseconds int64) uint64 {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(slices.Clip(random), uint64(nanoseconds)))
	return binary.BigEndian.Uint64(sum[:])
}
