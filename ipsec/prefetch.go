package ipsec

import (
	"sync/atomic"

	"github.com/warproute/warproute/internal/prefetch"
)

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
	if sas[0].direction == In { // the word of the window that most packets change
		var words [MaxPrefetch]*atomic.Uint64
		for i, s := range sas {
			words[i] = s.replay.newestWord()
		}
		prefetch.Write(words[:len(sas)], 0)
	}
	if keys {
		for _, s := range sas {
			some += s.transforms[w].Prefetch()
		}
	}
	return some
}

// PrefetchInbound prefetches inbound SAs again, and PrefetchWindows, some packets later, the words of their
// windows that Confirm and Count need. A device has had the packets for so long that the
// fields have left the caches. PrefetchOpened and PrefetchWords do that for ConfirmBlock, and for the Counts of an SA's first
// worker. Each takes up to MaxPrefetch SAs.
func PrefetchInbound(sas []*SA) {
	prefetch.Read(sas, 0)
	PrefetchOpened(sas)
}

// PrefetchOpened: see PrefetchInbound.
func PrefetchOpened(sas []*SA) { prefetch.Write(sas, contended) }

func PrefetchWindows(sas []*SA, seqs []uint64, w int) {
	var own [MaxPrefetch]*worker
	for i, s := range sas {
		own[i] = &s.workers[w]
	}
	prefetch.Write(own[:len(sas)], 0)
	PrefetchWords(sas, seqs)
}

// PrefetchWords: see PrefetchInbound.
func PrefetchWords(sas []*SA, seqs []uint64) {
	var words [MaxPrefetch]*atomic.Uint64
	for i, s := range sas {
		words[i] = s.replay.word(seqs[i])
	}
	prefetch.Write(words[:len(sas)], 0)
}
