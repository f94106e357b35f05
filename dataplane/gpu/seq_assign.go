package gpu

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/ipsec"
)

// If nearly all packets of a worker's lane are to be sealed, by many SAs, the device takes their sequence numbers by itself, and
// its chunks have one pass (kernel/seq_assign.h). The lender lends it the numbers of the tunnels' current SAs. Read "The life of a
// loan and of the lock" in docs/design/gpu.md first: it has the steps and their functions, in order.
//
// If the device leaves a packet to the host, the host assigns the numbers of this packet and of all later ones of the chunk.
// The device assigns none to packets of the worker's next chunk before the host has released the ticket lock, just before it posts the last pass of this one. So numbers are in
// the order of transmission, as all packets to seal are in one lane (docs/design/dataplane.md). Exception: a packet that the
// device has given a number (resultHostSeals); the host seals it with that.

// assigning is whether the device assigns sequence numbers to the packets of a lane's next chunk.
type assigning struct {
	seen     int // chunks in a row with nearly all packets to seal
	mostHost int // chunks in a row with many packets that the device has left to the host
	pause    int // chunks
}

// seqAssignment is the state of a worker's chunks to which the device assigns sequence numbers.
type seqAssignment struct {
	ticket   uint64 // of the next batch
	released uint64 // ticket to which the host has released the lock
	launches uint32 // of the kernel: each begins with ticket 0
	revoked  uint32 // lender.revoked before the next chunk takes numbers
	off      bool   // for tests
	sas      []*ipsec.SA

	// The host releases the lock when it posts a chunk's last pass. An abandoned chunk has none, so the next chunk does not wait,
	// but joins it: if the host holds the lock (HOST_HOLDS), all of its packets are the host's, too, and the host releases the lock with its last pass.
	joinsAbandoned bool // the next chunk
	joining        bool // a chunk that does is in flight
	lockBroken     bool // it was abandoned, too: the device may have lost count of tickets; until the kernel is launched again
}

const (
	assignShare = 16  // of so many packets, one may not be one to seal
	assignAfter = 2   // chunks
	hostShare   = 4   // of so many packets, more than one is the host's
	hostChunks  = 256 // more such chunks in a row end the assignment
	assignPause = findPause

	earlyShare  = 5 // batches release the lock early if a worker's chunks of a lane need more slots than one in so many of the lane's blocks,
	earlyUnused = 2 // or if at least one in so many of them is free
)

// observe records a chunk: its packets, those to seal, and those of one SA (see expectation.observe). asked is whether the device was
// to assign numbers, and toHost are the packets that it has left to the host.
func (x *assigning) observe(packets, seal, ofOneSA int, asked bool, toHost int) {
	most := seal*assignShare >= packets*(assignShare-1) && ofOneSA*expectShare < packets*(expectShare-1)
	switch {
	case x.pause > 0:
		x.pause--
		return
	case !asked && !most, asked && seal*assignShare < packets*(assignShare-1):
		x.seen = 0
	default:
		x.seen++
	}
	if asked && toHost*hostShare > packets {
		x.mostHost++
	} else if asked {
		x.mostHost = 0
	}
	if x.mostHost > hostChunks {
		x.seen, x.mostHost, x.pause = 0, 0, assignPause
	}
}

// mayAssignSeqs reports whether the device assigns the sequence numbers of the packets of a lane's next chunk.
func (e *Engine) mayAssignSeqs(lane uint8) bool {
	x, t := &e.seqAssign, &e.traffic[lane]
	if e.lender == nil || e.lender.paused() || x.off || t.assigning.seen < assignAfter || e.lanes[lane].deferred > 0 || t.finding.on && !t.finding.fixed || !e.esp.Classifies() || !e.lender.ensureReady(e.esp) {
		return false
	}
	if !e.awaitOlder(func() bool { return e.olderAssigned(lane) }) {
		t.assigning.seen = 0
		return false
	}
	if n := e.kernel.launches.Load(); n != x.launches {
		x.launches, x.ticket, x.released, x.joinsAbandoned, x.joining, x.lockBroken = n, 0, 0, false, false, false
	}
	if x.lockBroken {
		return false
	}
	e.esp.SetClock()
	e.lender.review(e.esp)
	x.revoked = e.lender.revoked.Load() // loaded before ready: revoke clears ready first, so a chunk that is posted meanwhile counts as older
	return e.lender.ready.Load()        // still: what comes before may have found the device lost
}

// ticketWords returns the words of each batch of a tile: the ticket of the first one, whether the tile waits while the host holds the
// lock, and whether the lock is released early (kernel/ticket_lock.h).
func ticketWords(ticket uint64, waits, early bool) batchWords {
	word := uint32(ticket % tickets)
	if waits {
		word |= lockWaits
	}
	if early {
		word |= lockEarly
	}
	return batchWords{line1: word}
}

// releasesEarly reports whether batches of a chunk release the lock early, whatever the length of their packets. That is so if the lock
// bounds the rate, as chunks of the lane need many slots, or the latency, as many blocks are free, or as the chunk has more tiles than usual,
// and so smaller batches. With 8 workers at full rate, none of this holds, and early release made long packets slower.
func (e *Engine) releasesEarly(f *flight) bool {
	lane, all := f.chunk.Lane, e.available(f.chunk.Lane)
	return e.lanes[lane].used*earlyShare > all || f.free*earlyUnused >= all || f.tiles > f.needed
}

// releaseLock releases the ticket lock to the batch with a ticket. Chunks of two lanes may be released in another order than that of
// their tickets: the later ticket stays, as the device has passed the earlier one.
func (e *Engine) releaseLock(ticket uint64) {
	if x := &e.seqAssign; ticket > x.released {
		x.released = ticket
		e.mailbox.releaseLock(e.number, ticket)
	}
}

// postToAssign posts a chunk for the device to assign sequence numbers.
func (e *Engine) postToAssign(f *flight) {
	f.passFlags = assignSeqsFlags
	if e.esp.Clamps() {
		f.passFlags |= clampMSSFlag
	}
	f.jobs = e.ipsec.take(f.chunk)
	clear(f.chunk.Out[:f.chunk.N])
	early := e.releasesEarly(f)
	for k := range f.tiles {
		w := ticketWords(e.seqAssign.ticket, k == 0 && !e.seqAssign.joinsAbandoned, early)
		in := f.chunk.In[f.tileStart(k):f.tileStart(k+1)]
		s := e.nextSlot(f, k)
		s.postWith(in, e.tiling.each(len(in)), e.number, f.passFlags, func(int) batchWords { return w })
		e.seqAssign.ticket += uint64(s.batches)
	}
	f.ticket, f.revoked = e.seqAssign.ticket, e.seqAssign.revoked
	e.seqAssign.joining, e.seqAssign.joinsAbandoned = e.seqAssign.joining || e.seqAssign.joinsAbandoned, false
	if e.fakeGPU != nil {
		e.fakeGPU(f)
	}
}

// acceptAssigned finishes the packets of a chunk to which the device has assigned sequence numbers, and which it has sealed. It
// returns the number of the others, and of the packets to seal.
func (e *Engine) acceptAssigned(f *flight) (hostPackets, seal int) {
	hostPackets = e.countHostPackets(f)
	e.esp.BeginSealed(f.jobs, hostPackets, e.ipsec.keys)
	seal = f.chunk.N - hostPackets
	e.seqAssign.joining = false
	// The host has used higher numbers than the device's, or the device has failed, and may have old keys.
	revoked := f.revoked != e.lender.revoked.Load() || !e.state.ok()
	for k := range f.tiles {
		p := e.firstPassTile(f, k)
		last := -1 // packet that the device says that it has sealed
		var by *esp.Sealer
		for i := 0; i < len(p.in); i++ {
			if !revoked {
				n, x := e.esp.AcceptSealed(p.in[i:], p.out[i:], p.results[i:], p.reports[i:], e.checker.ports)
				if hostPackets > 0 {
					decide(p.jobs[i : i+n])
				}
				if n > 0 {
					i += n
					last, by = i-1, x
				}
				if i == len(p.in) {
					break
				}
			}
			switch x, toSeal := e.acceptOneAssigned(&p, i, hostPackets > 0, revoked); {
			case x != nil:
				last, by = i, x
			case toSeal:
				seal++
			}
		}
		if last >= 0 && !e.esp.HasESPOf(by, p.in[last]) {
			e.checker.refuse(&p.out[last], p.in[last])
		}
		clear(p.results)
	}
	if low := e.esp.EndSealed(); low != nil {
		e.lender.extend(low)
	}
	e.lender.assigned.Add(int64(f.chunk.N - hostPackets))
	return hostPackets, seal
}

// acceptOneAssigned is acceptAssigned for packet i of a tile. It returns the SA by which the device has sealed it, or whether it is
// one for the host to seal. Revoked numbers do not leave.
func (e *Engine) acceptOneAssigned(p *firstPassTile, i int, hasHostPackets, revoked bool) (by *esp.Sealer, toSeal bool) {
	in, out, r, report := &p.in[i], &p.out[i], p.results[i], p.reports[i]
	switch {
	case r.Verdict == resultHost:
		return nil, false
	case r.Verdict == resultNeedsSeq:
		e.esp.Classified(&p.jobs[i], r.Addr(), r.Len())
		return nil, true
	case r.Verdict == resultHostSeals:
		if p.reports[i] = 0; revoked {
			return nil, true
		}
		if x := e.esp.Sealer(r.Addr()); x == nil || !e.esp.ReserveSeq(x, &p.jobs[i], report.HostSeq()) {
			*out, p.jobs[i].Kind = r, esp.Decided
			e.checker.refuse(out, *in)
		}
		return nil, true
	case hasHostPackets:
		p.jobs[i].Kind = esp.Decided
	}
	switch *out = r; {
	case r.Verdict == notSealed:
		return nil, false
	case revoked:
		*out = batch.Result{Verdict: batch.Lost}
		return nil, false
	}
	x := e.esp.Sealer(report.KeyIndex())
	if x == nil || !e.checker.possible(r) || !e.esp.SealedBy(x, in, report.Size()) || !inPlace(*in, r) {
		e.checker.refuse(out, *in)
		return nil, false
	}
	e.esp.CountSealedBy(x, report)
	return x, false
}

// lend lends the numbers of the SAs that seal a chunk's packets, which the device has left to the host.
func (e *Engine) lend(f *flight) {
	x := &e.seqAssign
	x.sas = x.sas[:0]
	for i := range f.jobs {
		if job := &f.jobs[i]; job.Kind == esp.Seal && job.SA.Lender() == nil && e.esp.MayLend(job.SA, e.ipsec.keys) && !recent(x.sas, job.SA) {
			x.sas = append(x.sas, job.SA)
		}
	}
	if len(x.sas) > 0 {
		e.lender.lend(x.sas, e.esp)
	}
}

// recent reports whether an SA is one of the last of a list: packets of an SA often follow each other.
func recent(sas []*ipsec.SA, s *ipsec.SA) bool {
	for i := len(sas) - 1; i >= max(0, len(sas)-8); i-- {
		if sas[i] == s {
			return true
		}
	}
	return false
}
