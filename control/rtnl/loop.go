package rtnl

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Loop is the event loop of a mirror of kernel state. One goroutine owns the state, applies
// netlink events to it in batches, and runs functions of other goroutines. A second goroutine
// reads the next batch meanwhile.
//
//	kernel ─► Listener ─► Events ─┐
//	Do ─► Calls ──────────────────┴► the owner's goroutine: Apply, then commit
//
// A mirror opens the loop, dumps the kernel's state, and then calls Start: events during the
// dump are queued. Apply returns ErrOverrun after lost events: the owner must compare its
// state with a new dump.
type Loop struct {
	Events chan *Batch   // received batches, for Apply
	Calls  chan func()   // functions of Do
	Done   chan struct{} // closed by Close

	listener *Listener
	empty    chan *Batch
	closing  sync.Once
	running  sync.WaitGroup
	stats    LoopStats
	lastMark uint32
	marks    []mark // in order
}

// LoopStats counts the processed messages of a loop. The fields belong to the owner's goroutine.
type LoopStats struct {
	Events    uint64 // received messages
	Malformed uint64 // messages that could not be parsed
	Resyncs   uint64 // comparisons with a dump, counted by the owner
}

// Batch is a buffer of messages from one Receive, which empties the socket.
type Batch struct {
	Read time.Time // time of the read

	buf []byte
	n   int
	err error
}

// mark is a Mark whose acknowledgement has not arrived.
type mark struct {
	seq     uint32
	arrived func()
}

// Batches of a loop.
const (
	batches     = 2
	batchBuffer = 1 << 20 // bytes
)

// OpenLoop subscribes to groups of a netlink family in the calling thread's network namespace.
// The kernel queues up to receiveBuffer bytes of events.
func OpenLoop(family, receiveBuffer int, groups ...int) (*Loop, error) {
	listener, err := ListenFamily(family, receiveBuffer, groups...)
	if err != nil {
		return nil, err
	}
	return newLoop(listener), nil
}

func newLoop(listener *Listener) *Loop {
	return &Loop{
		Events: make(chan *Batch, batches), Calls: make(chan func()), Done: make(chan struct{}),
		listener: listener, empty: make(chan *Batch, batches),
	}
}

// Start reads events and calls run on a new goroutine. run must return after Done.
func (l *Loop) Start(run func()) {
	for range batches {
		l.empty <- &Batch{buf: make([]byte, batchBuffer)}
	}
	l.running.Go(l.receive)
	l.running.Go(run)
}

// receive fills empty batches until the listener is closed.
func (l *Loop) receive() {
	for {
		select {
		case b := <-l.empty:
			b.n, b.err = l.listener.Receive(b.buf)
			b.Read = time.Now()
			if errors.Is(b.err, os.ErrClosed) {
				return
			}
			l.Events <- b // never blocks: capacity for all batches
		case <-l.Done:
			return
		}
	}
}

// Apply calls handle with each message of a batch and malformed with each error, then wipes and
// recycles the batch, which can contain keys. It returns an error of the read, such as ErrOverrun,
// without calling either. The owner's goroutine calls it.
func (l *Loop) Apply(b *Batch, handle func(Message) error, malformed func(error)) error {
	defer func() {
		clear(b.buf[:b.n])
		l.empty <- b
	}()
	if b.err != nil {
		return b.err
	}
	for rest := b.buf[:b.n]; len(rest) > 0; {
		msg, tail, err := Next(rest)
		switch {
		case err != nil:
		case msg.Type == unix.NLMSG_ERROR:
			l.arrive(msg.Seq)
		default:
			err = handle(msg)
		}
		if err != nil {
			l.stats.Malformed++
			malformed(err)
		}
		rest = tail
		l.stats.Events++
	}
	return nil
}

// Mark makes Apply call arrived once all events that precede the call have been applied.
func (l *Loop) Mark(arrived func()) error {
	l.lastMark++
	if err := l.listener.Mark(l.lastMark); err != nil {
		return err
	}
	l.marks = append(l.marks, mark{l.lastMark, arrived})
	return nil
}

// arrive completes a mark and all earlier marks, whose acknowledgements were lost in an overrun.
func (l *Loop) arrive(seq uint32) {
	for len(l.marks) > 0 && l.marks[0].seq <= seq {
		m := l.marks[0]
		l.marks = l.marks[1:]
		m.arrived()
	}
}

// Do runs f on the owner's goroutine and waits for it. It reports false, without running f,
// after Close.
func (l *Loop) Do(f func()) bool {
	ran := make(chan struct{})
	select {
	case l.Calls <- func() { f(); close(ran) }:
		<-ran
		return true
	case <-l.Done:
		return false
	}
}

// Closed reports whether Close was called.
func (l *Loop) Closed() bool {
	select {
	case <-l.Done:
		return true
	default:
		return false
	}
}

// Stats returns the counters, for the owner's goroutine.
func (l *Loop) Stats() *LoopStats { return &l.stats }

// Close stops the loop and waits for its goroutines.
func (l *Loop) Close() (err error) {
	l.closing.Do(func() {
		close(l.Done)
		err = l.listener.Close()
		l.running.Wait()
	})
	return err
}
