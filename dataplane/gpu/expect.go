package gpu

import (
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/ipsec"
)

// If nearly all packets of a worker's lane are of one SA, its chunks have one pass: the host posts them for the SA, unread, and the
// device seals or opens the packets that are of it (esp.Expected, kernel/expect.h). The sequence numbers of outbound packets
// are reserved when the chunk is posted, so older chunks must have theirs.

// expectation is the SA that the packets of a lane's next chunk are expected to be of.
type expectation struct {
	sa    *ipsec.SA // of nearly all packets of recent chunks; nil: none
	seen  int       // such chunks in a row
	pause int       // chunks until another SA is expected: packets were of others, or the device left them to the host
	wait  int       // chunks until older ones may have their numbers: see awaitOlder
	fixed bool      // sa is constant, for tests
}

const (
	expectShare = 16 // of so many packets, one may be of another SA
	expectAfter = 2  // chunks
	expectPause = findPause
	olderPause  = 64                     // chunks
	olderLimit  = 200 * time.Microsecond // for the first passes of older chunks
)

// observe records a chunk of n packets, of which some were of an SA: that of its first packet with one. If the chunk was posted
// for an SA, they are the ones that the device has finished.
func (x *expectation) observe(sa *ipsec.SA, packets, n int) {
	most := sa != nil && packets*expectShare >= n*(expectShare-1)
	switch {
	case x.fixed:
	case x.pause > 0:
		x.pause--
	case most && sa == x.sa:
		x.seen++
	case most:
		x.sa, x.seen = sa, 1
	case x.seen >= expectAfter:
		x.sa, x.seen, x.pause = nil, 0, expectPause
	default:
		x.sa, x.seen = nil, 0
	}
}

// next returns the expected SA, or nil.
func (x *expectation) next() *ipsec.SA {
	switch {
	case x.wait > 0:
		x.wait--
	case x.seen >= expectAfter || x.fixed:
		return x.sa
	}
	return nil
}

// expect reports whether a chunk is posted for an expected SA, f.expected.
func (e *Engine) expect(f *flight) bool {
	t := &e.traffic[f.chunk.Lane]
	sa := t.expected.next()
	if sa == nil || !e.esp.MayExpect(sa, e.ipsec.keys) {
		return false
	}
	if sa.Direction() == ipsec.Out && !e.awaitOlder(func() bool { return e.olderHaveSeqsOf(sa, f.chunk.Lane) }) {
		t.expected.wait = olderPause
		return false
	}
	x, ok := e.esp.Expect(sa, f.chunk.N)
	if ok {
		f.expected = x
	}
	return ok
}

// awaitOlder ends the first passes of older chunks until they are ready for the last one, within olderLimit. It reports whether
// they are.
func (e *Engine) awaitOlder(ready func() bool) bool {
	for by := batch.Clock() + olderLimit; !ready(); {
		if e.freeSlots(); batch.Clock() > by {
			return ready()
		}
	}
	return true
}

// olderHaveSeqsOf reports whether a lane's chunk can reserve numbers of an SA: all older chunks of the lane have their numbers, or
// were posted for the same SA, which has reserved them.
func (e *Engine) olderHaveSeqsOf(sa *ipsec.SA, lane uint8) bool {
	for i := range e.older() {
		if f := &e.inFlight[i]; f.chunk.Lane == lane && f.beforeLastPass() && f.expected.SA != sa {
			return false
		}
	}
	return true
}

// olderAssigned reports whether the device can assign the numbers of a lane's chunk: all older chunks of the lane have theirs, or
// were posted for the device to assign them, which it does in the order of chunks.
func (e *Engine) olderAssigned(lane uint8) bool {
	for i := range e.older() {
		if f := &e.inFlight[i]; f.chunk.Lane == lane && f.beforeLastPass() && !f.assignsSeqs() {
			return false
		}
	}
	return true
}

// older returns all submitted chunks but the last one.
func (e *Engine) older() []flight { return e.inFlight[:len(e.inFlight)-1] }

// batchWords are the words in the upper halves of a warp batch's cache lines 1 to 3, which have the tile header in other tiles.
// expectedWords and ticketWords make them.
type batchWords struct{ line1, line2, line3 uint32 }

const (
	expectKeyShift = 16
	expectOpen     = 1 << 31
	expectExtended = 1 << 16
)

// expectedWords returns the words of a batch that is expected to be of an SA (kernel/expect.h): the sequence number of the batch's
// first packet, the index of the SA's keys, and the longest packet that may be sealed. first is the place of that packet in the chunk.
func expectedWords(x *esp.Expected, first int) (w batchWords) {
	w.line2 = x.SA.KeyIndex() << expectKeyShift
	if x.SA.Direction() == ipsec.In {
		w.line2 |= expectOpen
		return w
	}
	seq := x.First + uint64(first)
	w.line1, w.line2, w.line3 = uint32(seq), w.line2|uint32(seq>>32), uint32(x.Largest)
	if x.SA.Extended() {
		w.line3 |= expectExtended
	}
	return w
}

// postExpected posts a chunk for its expected SA.
func (e *Engine) postExpected(f *flight) {
	f.passFlags = expectFlag
	if e.esp.Clamps() {
		f.passFlags |= clampMSSFlag
	}
	f.jobs = e.ipsec.take(f.chunk)
	clear(f.chunk.Out[:f.chunk.N])
	e.setReceiving(f, f.expected.SA.Direction() == ipsec.In)
	for k := range f.tiles {
		first := f.tileStart(k)
		in := f.chunk.In[first:f.tileStart(k+1)]
		e.nextSlot(f, k).postWith(in, e.tiling.each(len(in)), e.number, f.passFlags, func(at int) batchWords {
			return expectedWords(&f.expected, first+at)
		})
	}
	if e.fakeGPU != nil {
		e.fakeGPU(f)
	}
}

// acceptExpected finishes the packets of a chunk that were of the expected SA. It returns the number of the others.
func (e *Engine) acceptExpected(f *flight) (hostPackets int) {
	x := &f.expected
	hostPackets = e.countHostPackets(f)
	e.esp.BeginExpected(x, f.jobs, hostPackets)
	sealed, bytes := 0, uint64(0)
	for k := range f.tiles {
		p := e.firstPassTile(f, k)
		last := -1 // packet that the device says that it has sealed
		for i := 0; i < len(p.in); i++ {
			n, size := e.esp.AcceptExpected(x, p.in[i:], p.out[i:], p.results[i:], p.reports[i:], e.checker.ports)
			if n > 0 {
				if hostPackets > 0 {
					decide(p.jobs[i : i+n])
				}
				i += n
				last, sealed, bytes = i-1, sealed+n, bytes+size
			}
			if i == len(p.in) {
				break
			}
			if size, ok := e.acceptOneExpected(&p, i, x, hostPackets > 0); ok {
				last, sealed, bytes = i, sealed+1, bytes+uint64(size)
			}
		}
		if last >= 0 && !e.esp.IsSealed(x, p.in[last], f.tileStart(k)+last) {
			e.checker.refuse(&p.out[last], p.in[last])
		}
		clear(p.results)
	}
	e.esp.CountSealed(x, sealed, bytes)
	return hostPackets
}

// acceptOneExpected is acceptExpected for packet i of a tile. It reports whether the device has sealed the packet, and returns its
// size in bytes without ESP.
func (e *Engine) acceptOneExpected(p *firstPassTile, i int, x *esp.Expected, hasHostPackets bool) (size int, sealed bool) {
	in, out, r, report := &p.in[i], &p.out[i], p.results[i], p.reports[i] // copies: a device may change them
	switch {
	case r.Verdict == resultHost:
		return 0, false
	case r.Verdict == resultNeedsSeq:
		e.esp.Classified(&p.jobs[i], r.Addr(), r.Len())
		return 0, false
	case hasHostPackets:
		p.jobs[i].Kind = esp.Decided
	}
	switch *out = r; {
	case r.Verdict == notSealed:
		return 0, false
	case report.KeyIndex() == x.SA.KeyIndex() && e.checker.possible(r) && e.esp.Sealed(x, in, report.Size()) && inPlace(*in, r):
		return report.Size(), true
	}
	e.checker.refuse(out, *in)
	return 0, false
}
