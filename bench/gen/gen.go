// Package gen generates traffic on one port, and measures what comes back on
// another, or on the same.
//
// A frame is a UDP packet that says in its payload which flow it is of, which
// number it has in that flow and when it was sent (see probe). Templates of all
// flows are made beforehand; to send one is to copy some 60 bytes and write
// number, time and checksum:
//
//	templates ─► sender ─► port ─► what is measured ─► port ─► receiver ─► Report
//	             paced                                         per flow: lost, duplicate,
//	                                                           reordered; latency
//
// Each sender and each receiver is a goroutine on a thread of its own. They share
// nothing but their counts, so that the two ports may be anywhere: in namespaces
// of their own, or memory in a test.
package gen

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/internal/affinity"
)

// Options say how much to send, and how fast. One of Duration and Count must be
// given; where both are, what comes first ends the sending.
type Options struct {
	Rate     float64       // packets per second, all senders together; 0: as fast as the port takes them
	Duration time.Duration // of sending; of receiving, where nothing is sent
	Count    uint64        // packets to send; to receive, where nothing is sent
	Warmup   time.Duration // sending that is not counted, before
	// Drain is how long to wait, after the last packet was sent, for those that
	// are still under way; 0: DefaultDrain. It ends when all have come back.
	Drain time.Duration
	// CPUs are the processors to pin senders and then receivers to. Without
	// them threads are pinned where there are more processors than threads.
	CPUs []int
}

// DefaultDrain is longer than any queue that a router should have.
const DefaultDrain = 200 * time.Millisecond

// Run sends traffic on one port, receives on another, or on the same, and
// reports. With rx nil it only sends; with tx nil it only receives what another
// Run sends, and tells from the gaps what was lost. Loss is a result, not an
// error. When ctx ends, Run stops sending and reports what it has.
//
// From the first call on, IP packets to the receiving port's MAC address come
// here and no longer to Linux, until the port is closed.
func Run(ctx context.Context, tx, rx *Port, t Traffic, o Options) (*Report, error) {
	if tx == nil && rx == nil {
		return nil, errors.New("generate traffic: no port to send on and none to receive on")
	}
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("generate traffic: %w", err)
	}
	if o.Drain == 0 {
		o.Drain = DefaultDrain
	}
	if tx != nil {
		if err := t.complete(tx); err != nil {
			return nil, fmt.Errorf("generate traffic: %w", err)
		}
		if o.Warmup > 0 {
			warmup := o
			warmup.Duration, warmup.Count, warmup.Warmup = o.Warmup, 0, 0
			if _, err := run(ctx, tx, rx, &t, warmup); err != nil {
				return nil, err
			}
		}
	}
	return run(ctx, tx, rx, &t, o)
}

// Check refuses what makes no sense.
func (o *Options) Check() error {
	switch {
	case math.IsNaN(o.Rate) || math.IsInf(o.Rate, 0) || o.Rate < 0:
		return fmt.Errorf("a rate of %v packets per second", o.Rate)
	case o.Duration < 0 || o.Warmup < 0 || o.Drain < 0:
		return fmt.Errorf("a time below zero: duration %v, warm-up %v, drain %v", o.Duration, o.Warmup, o.Drain)
	case o.Duration == 0 && o.Count == 0:
		return errors.New("neither a duration nor a count of packets says when to stop")
	}
	return nil
}

// runNumber makes the packets of each run differ from those of any run before.
var runNumber = func() *atomic.Uint32 {
	n := &atomic.Uint32{}
	n.Store(rand.Uint32())
	return n
}()

// running is what the threads of a run share.
type running struct {
	workers   []*worker
	senders   []*sender
	receivers []*receiver
	sending   sync.WaitGroup // of the senders that are not done
	stopSend  atomic.Bool    // senders: end now
	stop      atomic.Bool    // all: end now
}

func run(ctx context.Context, tx, rx *Port, t *Traffic, o Options) (*Report, error) {
	r, err := newRunning(tx, rx, t, o)
	if err != nil {
		return nil, err
	}
	if rx != nil {
		if err := rx.admit(); err != nil {
			return nil, err
		}
	}
	before, err := missed(rx)
	if err != nil {
		return nil, err
	}

	// A thread that polls keeps one of the scheduler's processors to itself.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + len(r.workers)))
	var threads sync.WaitGroup
	errs := make([]error, len(r.workers))
	for i, w := range r.workers {
		threads.Go(func() { errs[i] = w.run(r) })
	}
	if tx != nil {
		r.send(ctx, o)
	} else {
		r.listen(ctx, o)
	}
	r.stop.Store(true)
	threads.Wait()
	for _, s := range r.senders {
		errs = append(errs, s.err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("generate traffic: %w", err)
	}
	after, err := missed(rx)
	if err != nil {
		return nil, err
	}
	return r.report(tx, rx, t, o, after-before), nil
}

// newRunning makes a worker of each of the sending port's and of the receiving
// port's, or, where the port is the same, one that does both in turn: a queue
// belongs to one thread.
func newRunning(tx, rx *Port, t *Traffic, o Options) (*running, error) {
	r := &running{}
	run := runNumber.Add(1) & 0xffff
	if tx != nil {
		templates := newTemplates(t, run)
		senders := min(len(tx.Workers), t.Flows)
		for i := range senders {
			s := newSender(&tx.Workers[i], templates, i, senders, o)
			r.senders = append(r.senders, s)
			r.workers = append(r.workers, &worker{sender: s})
		}
		r.sending.Add(senders)
	}
	if rx != nil {
		for i := range rx.Workers {
			c := newReceiver(&rx.Workers[i], run, t.Flows)
			if tx == nil {
				c = newListener(&rx.Workers[i])
			}
			r.receivers = append(r.receivers, c)
			if tx == rx && i < len(r.senders) {
				r.workers[i].receiver, c.sender = c, r.senders[i]
			} else {
				r.workers = append(r.workers, &worker{receiver: c})
			}
		}
	}
	return r, r.place(o.CPUs)
}

// place chooses the processors of the workers.
func (r *running) place(cpus []int) error {
	if len(cpus) == 0 {
		all, err := affinity.CPUs()
		if err != nil {
			return err
		}
		if len(all) > len(r.workers) { // else the kernel shares them out, with whatever else runs
			cpus = all
		}
	}
	for i, w := range r.workers {
		w.cpu = affinity.Any
		if len(cpus) > 0 {
			w.cpu = cpus[i%len(cpus)]
		}
	}
	return nil
}

// tick is how often the course of a run is looked at.
const tick = time.Millisecond

// send waits until everything is sent and has come back, or will not.
func (r *running) send(ctx context.Context, o Options) {
	cancel := context.AfterFunc(ctx, func() { r.stopSend.Store(true) })
	defer cancel()
	r.sending.Wait()
	if len(r.receivers) == 0 {
		return
	}
	var sent uint64
	for _, s := range r.senders {
		sent += s.sent
	}
	for end := clock() + o.Drain; r.received() < sent && clock() < end; {
		time.Sleep(tick)
	}
}

// listen waits until there is no more to receive.
func (r *running) listen(ctx context.Context, o Options) {
	count := o.Count
	if count == 0 {
		count = math.MaxUint64
	}
	end := clock() + o.Duration
	for ctx.Err() == nil && r.received() < count && (o.Duration == 0 || clock() < end) {
		time.Sleep(tick)
	}
}

// received is how many different packets have come back so far.
func (r *running) received() (n uint64) {
	for _, c := range r.receivers {
		n += c.received.Load()
	}
	return n
}
