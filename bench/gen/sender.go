package gen

import (
	"errors"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/umem"
)

// burst is the limit of frames per transmit: enough to amortize the system call, few enough to keep
// timestamps accurate.
const burst = 64

// sender sends a share of the flows on the first queue of its worker. It belongs to one thread; others
// read its counters after it is done.
type sender struct {
	*templates
	worker *Worker
	mem    []byte
	filled []uint8 // by frame of memory: 1 + index of the length that its fill has

	first, step int      // its flows: first, first+step, ...
	seqs        []uint32 // next sequence number of each of its flows
	turn        int      // next flow
	mix         mix
	pace        pacer

	// Frames that wait for room in the port, and their flows.
	frames []batch.Frame
	turns  []int

	made, sent   uint64
	bytes        uint64 // in memory, of sent frames
	began, ended time.Duration
	building     time.Duration // time to build frames
	transmitting time.Duration // time in the port's transmit
	lag          time.Duration // longest delay of a packet by the sender
	full         time.Duration // since when the port has no room; 0: it has room
	finished     bool          // all frames are built and in the port
	done         bool          // the port has sent them
	err          error
}

func newSender(w *Worker, ts *templates, number, senders int, o Options) *sender {
	s := &sender{
		templates: ts, worker: w, mem: w.Memory.Bytes(), filled: make([]uint8, w.Memory.Frames()),
		first: number, step: senders,
		seqs:   make([]uint32, (ts.flows+senders-1-number)/senders),
		frames: make([]batch.Frame, 0, burst), turns: make([]int, 0, burst),
		pace: newPacer(o, number, senders),
	}
	s.mix = newMix(ts.order, len(s.seqs))
	return s
}

var errStuck = errors.New("the port accepted no frame for 1 s: its link may be down")

// send builds and transmits the packets that are due. stop ends the sending. It reports whether it was
// busy.
func (s *sender) send(now time.Duration, stop bool) (busy bool) {
	q := s.worker.Queues[0]
	pending := q.Reclaim()
	if s.done {
		return false
	}
	if s.finished {
		s.done = pending == 0 || now-s.ended > DefaultDrain
		return false
	}
	if s.began == 0 {
		s.began, s.ended = now, now
		s.pace.began = now
	}
	due, over := s.pace.due(now, s.made)
	if stop || over || s.made == s.pace.total && len(s.frames) == 0 {
		s.finish()
		return true
	}
	if len(s.frames) == 0 {
		if due == 0 {
			return false
		}
		s.build(min(due, burst, s.worker.Pool.Len()), now)
	}
	built := clock()
	n := q.Transmit(s.frames)
	end := clock()
	s.building += built - now
	s.transmitting += end - built
	if n == 0 {
		s.wait(end)
		return false
	}
	s.full, s.ended = 0, end
	for _, f := range s.frames[:n] {
		s.bytes += uint64(f.Len)
	}
	s.sent += uint64(n)
	s.frames = s.frames[:copy(s.frames, s.frames[n:])]
	s.turns = s.turns[:copy(s.turns, s.turns[n:])]
	return true
}

// wait records that the port has no room, and fails after a second.
func (s *sender) wait(now time.Duration) {
	if s.full == 0 {
		s.full = now
	}
	if now-s.full > time.Second {
		s.err = errStuck
		s.finish()
	}
}

// build builds the next n frames. With a rate, their time is that at which they were due, so that a delay
// of the sender counts as latency (coordinated omission); otherwise it is now.
func (s *sender) build(n int, now time.Duration) {
	for i := range uint64(n) {
		sent := now
		if s.pace.perNs > 0 {
			sent = s.pace.take(s.made + i)
			s.lag = max(s.lag, now-sent)
		}
		size := s.mix.next()
		start := s.worker.Pool.Take()
		length := s.lengths[size]
		frame := s.mem[start+umem.DataOffset:][:length]
		if index := start / umem.FrameSize; s.filled[index] != uint8(size)+1 {
			copy(frame[s.head:], s.fill)
			s.filled[index] = uint8(size) + 1
		}
		s.write(frame, s.first+s.turn*s.step, size, s.seqs[s.turn], uint64(sent)&timeMask)
		s.seqs[s.turn]++
		s.frames = append(s.frames, batch.Frame{Addr: start + umem.DataOffset, Len: uint16(length)})
		s.turns = append(s.turns, s.turn)
		if s.turn++; s.turn == len(s.seqs) {
			s.turn = 0
		}
	}
	s.made += uint64(n)
}

// finish frees the frames that the port did not accept.
func (s *sender) finish() {
	for i, f := range s.frames {
		s.worker.Pool.Put(f.Addr)
		s.seqs[s.turns[i]]--
	}
	s.frames, s.turns = s.frames[:0], s.turns[:0]
	s.finished = true
}

// overwritten marks a frame that was used for receiving.
func (s *sender) overwritten(addr uint32) { s.filled[addr/umem.FrameSize] = 0 }
