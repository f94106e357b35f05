package gpu

import (
	"fmt"
	"slices"
	"time"

	"github.com/warproute/warproute/batch"
)

// Words of kernel/seq_assign.h.
const (
	maxTunnels      = 1 << 15
	tickets         = 1 << 30
	lockWaits       = 1 << 31
	lockEarly       = 1 << 30
	nowServingBytes = 32
	saSeqsBytes     = 16
	saExtendedShift = 48

	requestLend   = 1
	requestExtend = 2
	requestTake   = 3
	requestRetire = 4 // ends a loan

	seqsRetired = 1 << 63
	noAnswer    = 1<<64 - 1 // no request has this answer
	seqsLow     = 1 << 18
)

// saSeqs is struct sa_seqs of job.h.
type saSeqs struct{ Next, Last uint64 }

// seqRequest is struct seq_request of job.h, which explains the fields. It has the size of a deviceJob, and is in its place.
type seqRequest struct {
	Key, SeqLow                     uint32
	Extended, Tunnel, SeqHigh, What uint16
}

// request is what the device is asked about an SA: kernel/seq_assign.h, serve_request.
type request struct {
	what    uint16
	key     uint32
	seq     uint64 // the last one to lend
	count   uint32 // sequence numbers
	tunnel  uint16
	longest uint16
	esn     bool
}

// set writes a request in the device's format, and returns the frame that has the rest of it.
func (r *request) set(to *seqRequest) batch.Frame {
	*to = seqRequest{Key: r.key, SeqLow: uint32(r.seq), SeqHigh: uint16(r.seq >> 32), Tunnel: r.tunnel, What: r.what}
	if r.esn {
		to.Extended = 1
	}
	return batch.Frame{Addr: r.count, Len: r.longest}
}

// ask passes requests to the device and appends its answers. It is not ok if the device is lost. The caller holds the
// lock.
func (l *lender) ask(all []request, answers []uint64) (_ []uint64, ok bool) {
	for len(all) > 0 {
		if !l.usable() {
			return answers, false
		}
		now := all[:min(len(all), l.batches*batchFrames)]
		all = all[len(now):]
		l.slot = &l.mailbox.slots[l.mailbox.nextSlot(0)]
		l.frames = l.frames[:0]
		to := l.slot.requests()
		for i, r := range now {
			l.frames = append(l.frames, r.set(&to[i]))
		}
		pending := l.slot.answers()[:len(now)]
		for i := range pending {
			pending[i] = noAnswer
		}
		l.slot.post(l.frames, min(batchFrames, len(now)), 0, nil, seqRequestFlags)
		if l.fakeGPU != nil {
			l.fakeGPU(l.slot, len(now))
		}
		for by := batch.Clock() + l.limit; !l.slot.finished(); {
			if (!l.state.ok() || batch.Clock() > by) && !l.slot.finished() { // polls again: the thread may have been descheduled
				l.lost = true
				return answers, false
			}
		}
		if slices.Contains(pending, noAnswer) {
			l.state.fail(&failure{CauseBadResult, fmt.Sprintf("impossible GPU result: %d requests for sequence numbers finished without an answer", len(now))})
			return answers, false
		}
		answers = append(answers, pending...)
	}
	return answers, true
}

// awaitKeyUsers waits until no chunk uses the keys at an index, whose SA was lent. If one still does after policyWait, the index is not
// lent again before it has ended.
func (t *ipsecTables) awaitKeyUsers(index uint32) {
	l := t.lender
	if l == nil {
		return
	}
	l.mu.Lock()
	before := l.keyUsers[index]
	l.mu.Unlock()
	for by := time.Now().Add(policyWait); !l.users.ended(before) && time.Now().Before(by); {
		time.Sleep(pollInterval)
	}
}
