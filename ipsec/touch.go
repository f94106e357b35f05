package ipsec

import "github.com/warproute/warproute/internal/prefetch"

// Where in an association pairs of lines are that many workers use: see SA. A test compares.
const contended = 2 * linePair

// MaxTouch is how many associations Touch and Lease take at once.
const MaxTouch = 64

// Touch asks for what a worker needs of associations, and returns something of it. It is
// for those who have several packets at hand: called for all before the first is
// protected, it has their cache misses overlap, which in the course of Encapsulate and
// Decapsulate would wait for one another. Keys are not needed where a device has them.
func Touch(sas []*SA, w int, keys bool) (some uint64) {
	prefetch.Read(sas, 0)
	prefetch.Read(sas, linePair/2)
	var own [MaxTouch]*worker
	for i, s := range sas {
		own[i] = &s.workers[w]
	}
	prefetch.Write(own[:len(sas)], 0)
	if keys {
		for _, s := range sas {
			some += s.transforms[w].Touch()
		}
	}
	return some
}
