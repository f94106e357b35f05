package ipsec

import "github.com/warproute/warproute/internal/prefetch"

// contended is the offset in an SA of the pair of lines that all workers write: see SA.
const contended = 2 * linePair

// MaxPrefetch is the largest number of SAs per call of Prefetch.
const MaxPrefetch = 64

// Prefetch prefetches the fields that a worker needs of SAs of one direction; the result only keeps the
// compiler from removing the loads. It is called for a block of packets before the first is
// encrypted, so that their cache misses overlap. Keys are not needed if a device has them.
func Prefetch(sas []*SA, w int, keys bool) (some uint64) {
	if len(sas) == 0 {
		return 0
	}
	prefetch.Read(sas, 0)
	prefetch.Read(sas, linePair/2)
	if sas[0].direction == In { // ReserveRequested prefetches outbound ones, for writing
		prefetch.Write(sas, contended)
	}
	var own [MaxPrefetch]*worker
	for i, s := range sas {
		own[i] = &s.workers[w]
	}
	prefetch.Write(own[:len(sas)], 0)
	if keys {
		for _, s := range sas {
			some += s.transforms[w].Prefetch()
		}
	}
	return some
}

// PrefetchInbound prefetches inbound SAs again, and PrefetchCounts, some packets later, what else a worker needs for Confirm and Count.
// A device has had the packets for so long that the fields have left the caches. Each takes up to MaxPrefetch SAs.
func PrefetchInbound(sas []*SA) {
	prefetch.Read(sas, 0)
	PrefetchOpened(sas)
}

// PrefetchCounts: see PrefetchInbound.
func PrefetchCounts(sas []*SA, w int) {
	var own [MaxPrefetch]*worker
	for i, s := range sas {
		own[i] = &s.workers[w]
	}
	prefetch.Write(own[:len(sas)], 0)
}

// PrefetchOpened prefetches what the first worker of SAs needs for ConfirmBlock, and for its Counts. It takes up to MaxPrefetch SAs.
func PrefetchOpened(sas []*SA) { prefetch.Write(sas, contended) }
