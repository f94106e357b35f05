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

// Nonces generates the nonces of outbound SAs: a base plus the sequence number, modulo 2^64. An SA
// uses no nonce twice. Two runs of a router that start with the same sequence number, because
// their state was lost, restored or never shared, use different nonces.
//
// A base is random, and at least NonceSpacing away from the known bases of the same keys. The
// nonces of two runs that do not know each other overlap with a probability of (m + n) / 2^64,
// where m and n are their packets with one key; docs/design/ipsec.md has the arithmetic.
//
// SAs with the same key must use the same Nonces. Renew may be called while workers use it. The
// zero Nonces draws its base at the first use.
type Nonces struct {
	base    atomic.Uint64
	devices atomic.Uint64 // see DeviceBase
	drawn   atomic.Bool

	mu   sync.Mutex
	used []uint64 // earlier bases to keep away from
}

// NonceSpacing is the smallest distance between known bases. Nonces cannot overlap with fewer
// packets per key, which a million packets per second reach in nine years.
const NonceSpacing = 1 << 48

// processNonces serves SAs without Nonces of their own: SAs of one process never overlap.
var processNonces Nonces

// Base returns the current base, which is added to sequence numbers.
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
		n.draw(randomNonceBase)
	}
}

// Avoid records bases of earlier runs of the router.
func (n *Nonces) Avoid(bases ...uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.used = append(n.used, bases...)
}

// Renew draws a new base for sequence numbers that are taken from now on. It is called at every
// start, and when the router's memory may have been duplicated.
func (n *Nonces) Renew() (base uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.draw(randomNonceBase)
}

// Reserve draws a base for the process that continues after this one. It stays far from all that this one
// draws.
func (n *Nonces) Reserve() (base uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.find(randomNonceBase)
}

// Use makes a reserved base the current one.
func (n *Nonces) Use(base uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.used = append(n.used, base)
	n.set(base)
}

// draw makes a new base the current one.
func (n *Nonces) draw(random func() uint64) uint64 {
	base := n.find(random)
	n.set(base)
	return base
}

// set makes a base the current one. Devices have the first one.
func (n *Nonces) set(base uint64) {
	if !n.drawn.Load() {
		n.devices.Store(base)
	}
	n.base.Store(base)
	n.drawn.Store(true)
}

// find draws bases until one is far from all known ones. Base 0 is always known: the nonces of
// older releases were the sequence numbers.
func (n *Nonces) find(random func() uint64) uint64 {
	for {
		base := random()
		near := func(used uint64) bool { return base-used < NonceSpacing || used-base < NonceSpacing }
		if near(0) || slices.ContainsFunc(n.used, near) {
			continue
		}
		n.used = append(n.used, base)
		return base
	}
}

// DeviceBase returns the base in the key records of devices, which follow Renew later: see SetDeviceBase. Devices write
// nonces only while it is the current one. It is the first base until then.
func (n *Nonces) DeviceBase() uint64 { return n.devices.Load() }

// SetDeviceBase records that the key records of all devices have a base.
func (n *Nonces) SetDeviceBase(base uint64) { n.devices.Store(base) }

// randomNonceBase mixes the time into the kernel's random bytes, because two virtual machines that
// start from one snapshot have the same random bytes until their kernels notice.
func randomNonceBase() uint64 {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return mixNonceBase(b[:], time.Now().UnixNano())
}

func mixNonceBase(random []byte, nanoseconds int64) uint64 {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(slices.Clip(random), uint64(nanoseconds)))
	return binary.BigEndian.Uint64(sum[:])
}
