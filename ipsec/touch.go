package ipsec

import (
	"sync/atomic"

	"github.com/warproute/warproute/internal/prefetch"
)

// contended is where in an association the pair of lines is that many workers write: see SA.
const contended = 2 * linePair

// MaxTouch is how many associations Touch takes at once.
const MaxTouch = 64

// Touch asks for what a worker needs of associations of one direction, and returns something
// of it. It is for those who have several packets at hand: called for all before the first is
// protected, it has their cache misses overlap, which in the course of Encapsulate and
// Decapsulate would wait for one another. Keys are not needed where a device has them.
func Touch(sas []*SA, w int, keys bool) (some uint64) {
	if len(sas) == 0 {
		return 0
	}
	prefetch.Read(sas, 0)
	prefetch.Read(sas, linePair/2)
	if sas[0].direction == In { // of outbound ones Lease asks for it when it is about to write
		prefetch.Write(sas, contended)
	}
	var own [MaxTouch]*worker
	for i, s := range sas {
		own[i] = &s.workers[w]
	}
	prefetch.Write(own[:len(sas)], 0)
	if sas[0].direction == In { // and where the number of the next packet is noted
		var words [MaxTouch]*atomic.Uint64
		for i, s := range sas {
			words[i] = s.replay.next()
		}
		prefetch.Write(words[:len(sas)], 0)
	}
	if keys {
		for _, s := range sas {
			some += s.transforms[w].Touch()
		}
	}
	return some
}

// Recall asks for inbound associations once more, and RecallWindows, a while later, for what
// of them Confirm and Count need for packets of these numbers: where a device has had packets
// for so long that nothing of it is near any more. Each takes up to MaxTouch.
func Recall(sas []*SA) {
	prefetch.Read(sas, 0)
	prefetch.Write(sas, contended)
}

func RecallWindows(sas []*SA, seqs []uint64, w int) {
	var own [MaxTouch]*worker
	var words [MaxTouch]*atomic.Uint64
	for i, s := range sas {
		own[i], words[i] = &s.workers[w], s.replay.word(seqs[i])
	}
	prefetch.Write(own[:len(sas)], 0)
	prefetch.Write(words[:len(sas)], 0)
}
