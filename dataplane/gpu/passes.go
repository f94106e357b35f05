package gpu

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/gpu/choice"
	"github.com/warproute/warproute/ipsec"
)

// A gateway's chunk passes through the GPU once or twice. The first pass is one of these, or is left out if the host is expected
// to read most packets anyway:
//
//	expected  (expect.go) all packets are expected to be of one SA, and the device seals or opens them
//	assigned  (seq_assign.go) packets of many SAs, to which the device assigns sequence numbers, and which it seals
//	find      the device finds the SAs of received ESP and opens it, and finds the tunnels of packets to seal;
//	          without packets to open, it reads only headers
//
// All other packets are the host's: host packets. For the last pass, the host makes jobs of them, and posts the chunk again; the jobs of
// finished packets are Decided. It waits until all older chunks of the lane are in their last pass, so that sequence numbers are in the
// order of chunks. A chunk without host packets skips that pass.

// pass is the progress of a chunk on the GPU.
type pass uint8

const (
	lastPass    pass = iota // the zero value: also the only pass of a chunk without IPsec
	firstPass               // posted for the first pass, which is not ended
	waiting                 // without a first pass; waits until older chunks are in their last one
	doneInFirst             // finished by the first pass
)

// laneTraffic is what recent chunks of a lane had. The first pass of the next one follows from it. A lane of plain packets
// changes nothing for the packets of tunnels beside it, and has no first pass.
type laneTraffic struct {
	finding     findMode    // of received ESP
	classifying findMode    // of packets to seal
	expected    expectation // of all packets
	assigning   assigning   // of sequence numbers, to packets to seal
	class       choice.Class
}

// findMode says which chunks have a first pass for packets of a kind, received ESP or packets to seal, by what recent
// chunks had.
type findMode struct {
	on    bool // the kind is one packet in findShare
	pause int  // chunks until it is tried again: the device did not find what the host found
	fixed bool // on is constant, for tests
}

const (
	findShare = 4
	findPause = 1000 // chunks
)

// observe records a chunk: its packets, those of the kind, and of these the ones that the device has found, -1 if it was not asked.
func (m *findMode) observe(packets, kind, found int) {
	if m.fixed {
		return
	}
	m.on = kind*findShare >= packets
	if found >= 0 && m.on && found*findShare < packets {
		m.pause = findPause
	}
}

// next reports whether the next chunk has a first pass.
func (m *findMode) next() bool {
	if m.pause > 0 {
		m.pause--
		return false
	}
	return m.on
}

// begin posts a chunk that has slots: on a gateway for its first pass, if it has one.
func (e *Engine) begin(f *flight) {
	f.repeated = e.shadow.next()
	if e.ipsec == nil {
		if f.repeated {
			e.shadow.keep(f.chunk, nil)
		}
		e.post(f)
		return
	}
	f.pass = waiting
	switch {
	case f.repeated: // it is compared with the host's jobs
	case e.expect(f):
		f.pass = firstPass
		e.postExpected(f)
	case e.mayAssignSeqs(f.chunk.Lane):
		f.pass = firstPass
		e.postToAssign(f)
	default:
		if f.passFlags = e.firstPassFlags(f.chunk.Lane); f.passFlags != 0 {
			f.pass = firstPass
			e.postUnread(f)
		}
	}
	e.lanes[f.chunk.Lane].inFirstPass++
	e.advance()
}

// firstPassFlags returns the flags of a lane's next chunk's tile headers in its first pass, 0 if it has none.
func (e *Engine) firstPassFlags(lane uint8) (flags uint32) {
	t := &e.traffic[lane]
	if t.finding.next() && e.esp.Finds() {
		flags |= findSAsFlag
	}
	if t.classifying.next() && e.esp.Classifies() {
		flags |= classifyFlag
		if e.esp.Clamps() {
			flags |= clampMSSFlag
		}
	}
	return flags
}

// postUnread posts a chunk without jobs, for the device to find SAs and tunnels.
func (e *Engine) postUnread(f *flight) {
	f.jobs = e.ipsec.take(f.chunk)
	clear(f.chunk.Out[:f.chunk.N])
	e.setReceiving(f, f.passFlags&findSAsFlag != 0)
	for k := range f.tiles {
		in := f.chunk.In[f.tileStart(k):f.tileStart(k+1)]
		e.nextSlot(f, k).post(in, e.tiling.each(len(in)), e.number, nil, f.passFlags)
	}
	if e.fakeGPU != nil {
		e.fakeGPU(f)
	}
}

// beforeLastPass reports whether a chunk on the GPU has its last pass, or the end of its first one, yet to come.
func (f *flight) beforeLastPass() bool {
	return f.placement == ExecutedOnGPU && (f.pass == firstPass || f.pass == waiting)
}

// advance ends the first passes of chunks. The sequence numbers of opened packets are confirmed together, of all these chunks; until
// then, another worker with packets of the same SA may advance its window.
func (e *Engine) advance() {
	for lane := range e.lanes {
		e.advanceLane(uint8(lane))
	}
	if e.ipsec != nil {
		e.esp.ConfirmOpened()
	}
}

// advanceLane ends the first passes of a lane's chunks, oldest first, up to one that the device has not finished, whose
// end would move replay windows past the packets of an older chunk (opensLast), or that has no slot for a last pass (lastPassBlocked).
func (e *Engine) advanceLane(lane uint8) {
	opens := false // an older chunk opensLast
	for i := 0; e.lanes[lane].inFirstPass > 0 && i < len(e.inFlight); i++ {
		f := &e.inFlight[i]
		switch {
		case f.placement != ExecutedOnGPU || f.chunk.Lane != lane:
		case !f.beforeLastPass():
			opens = opens || f.opensLast
		case f.pass == firstPass && (!e.firstPassDone(f) || opens && f.opensFirst() || e.lastPassBlocked(f)):
			return
		default:
			e.lanes[lane].inFirstPass--
			e.endFirstPass(f)
			opens = opens || f.opensLast
		}
	}
}

// opensFirst reports whether a chunk's first pass opens received packets.
func (f *flight) opensFirst() bool {
	return f.passFlags&findSAsFlag != 0 || f.expected.SA != nil && f.expected.SA.Direction() == ipsec.In
}

// firstPassDone reports whether the first pass of a chunk is finished. Its slots stay in use.
func (e *Engine) firstPassDone(f *flight) bool {
	for f.finished < f.tiles && e.mailbox.slots[f.slots[f.finished]].finished() {
		f.finished++
	}
	return f.finished == f.tiles
}

// collect copies the results of a chunk's last pass, as far as the device has finished it (collectTiles). It reports whether
// the chunk is finished.
func (e *Engine) collect(f *flight) bool {
	return f.pass == doneInFirst || f.pass == lastPass && e.collectTiles(f)
}

// endFirstPass ends the first pass of a chunk: it checks the results, counts sealed packets, and observes what the chunk had. Then it
// makes jobs of the other packets and posts the last pass, before which the sequence numbers of opened ones are confirmed. Without other
// packets, it posts nothing, and advance confirms the numbers: then the chunk is finished. A chunk that was waiting had no first pass,
// and all packets get jobs.
func (e *Engine) endFirstPass(f *flight) {
	c, hostPackets, foundESP, classified := f.chunk, f.chunk.N, -1, -1
	first := f.pass == firstPass
	if !first || !f.opensFirst() { // the host may decrypt packets of the chunk
		e.esp.ConfirmOpened()
	}
	if first {
		var protected int
		switch {
		case f.assignsSeqs():
			hostPackets, protected = e.acceptAssigned(f)
		case f.expected.SA != nil && f.expected.SA.Direction() == ipsec.Out:
			hostPackets = e.acceptExpected(f)
		default:
			hostPackets, protected = e.acceptFirstPass(f)
		}
		if f.passFlags&findSAsFlag != 0 {
			foundESP = e.esp.Received()
		}
		if f.passFlags&classifyFlag != 0 {
			classified = protected
		}
		f.finished = 0
	}
	switch {
	case hostPackets == 0:
		f.pass = doneInFirst
		e.release(f.slots[:f.tiles])
	case first:
		f.pass = lastPass
		e.esp.Rest(c.In[:c.N], c.Out[:c.N], f.jobs, e.ipsec.keys)
		e.checker.markAll(c, f.jobs)
		f.opensLast = e.esp.OpensInner()
		if f.assignsSeqs() {
			e.lend(f)
		}
	default:
		f.pass = lastPass
		f.jobs = e.ipsec.begin(e.esp, &e.checker, c)
		f.opensLast = e.esp.Received() > 0
	}
	aead, hmac := e.esp.Protected()
	t := &e.traffic[c.Lane]
	t.finding.observe(c.N, e.esp.Received(), foundESP)
	t.classifying.observe(c.N, aead+hmac-e.esp.Received(), classified)
	sa, packets := e.esp.FirstSA()
	if f.expected.SA != nil {
		sa, packets = f.expected.SA, c.N-hostPackets
	}
	t.expected.observe(sa, packets, c.N)
	if e.lender != nil {
		t.assigning.observe(c.N, aead+hmac-e.esp.Received(), packets, f.assignsSeqs(), hostPackets)
	}
	e.setReceiving(f, e.esp.Received() > 0)
	class := e.classOf(f)
	e.lanes[c.Lane].plain = class == choice.Forward
	if e.chooser != nil {
		t.class, f.class = class, class
	}
	if f.repeated {
		e.shadow.keep(c, f.jobs)
	}
	if hostPackets > 0 {
		e.restartAge(f)
		e.post(f)
	}
}

// restartAge restarts the age of a chunk whose last pass is posted, and of the chunks behind it, if they wait until the host has
// released the lock: the host's time does not count as the device's.
func (e *Engine) restartAge(f *flight) {
	f.ageStart = batch.Clock()
	if !f.assignsSeqs() {
		return
	}
	for i := len(e.inFlight) - 1; &e.inFlight[i] != f; i-- {
		if x := &e.inFlight[i]; x.chunk.Lane == f.chunk.Lane || x.assignsSeqs() {
			x.ageStart = f.ageStart
		}
	}
}
