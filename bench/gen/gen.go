// Package gen generates traffic on one port and measures it on another, or on the same.
//
// A frame is a UDP packet whose payload has flow, sequence number and timestamp (see probe).
// Templates of all flows are made in advance; a send copies about 60 bytes and writes number, time
// and checksum:
//
//	templates ─► sender ─► port ─► device under test ─► port ─► receiver ─► Report
//	             paced                                          per flow: lost, duplicate,
//	                                                            reordered; latency
//
// Each sender and each receiver is a goroutine on its own thread. They share only counters, so the
// ports can be in different namespaces, or memory in a test.
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

	"github.com/warproute/warproute/bench/load"
	"github.com/warproute/warproute/internal/affinity"
)

// Options are rate and amount of traffic. Duration or Count is required; with both, the first that is
// reached ends the run.
type Options struct {
	Rate     float64       // packets per second, of all senders together; 0: the maximum
	Arrival  load.Arrival  // of packets in time; other than at equal times, only with a rate
	Seed     uint64        // of Arrival
	Duration time.Duration // of sending, or of receiving without sending
	Count    uint64        // packets to send, or to receive without sending
	Warmup   time.Duration // of sending before the measurement
	// Drain is the time to wait for packets after the last one was sent; 0: DefaultDrain. It ends
	// when all have arrived.
	Drain time.Duration
	// CPUs are the cores for senders, then receivers. By default threads are pinned if there are
	// more cores than threads.
	CPUs []int
}

// DefaultDrain is longer than the queueing delay of a router.
const DefaultDrain = 200 * time.Millisecond

// Run sends traffic on one port, receives it on another or on the same, and reports. Without rx it
// only sends. Without tx it receives the packets of another Run, and counts gaps as losses. Loss is
// not an error. When ctx ends, Run stops sending and reports.
//
// From the first call until the receiving port is closed, IP packets to its MAC address do not reach
// Linux.
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

// Check returns an error for invalid options.
func (o *Options) Check() error {
	switch {
	case math.IsNaN(o.Rate) || math.IsInf(o.Rate, 0) || o.Rate < 0:
		return fmt.Errorf("invalid rate: %v packets per second", o.Rate)
	case o.Rate == 0 && o.Arrival.Kind != load.Constant:
		return fmt.Errorf("%v arrivals without a rate", o.Arrival)
	case o.Duration < 0 || o.Warmup < 0 || o.Drain < 0:
		return fmt.Errorf("negative time: duration %v, warm-up %v, drain %v", o.Duration, o.Warmup, o.Drain)
	case o.Duration == 0 && o.Count == 0:
		return errors.New("no duration and no count of packets")
	}
	return nil
}

// runNumber identifies the packets of a run.
var runNumber = func() *atomic.Uint32 {
	n := &atomic.Uint32{}
	n.Store(rand.Uint32())
	return n
}()

// running is the shared state of a run's threads.
type running struct {
	workers   []*worker
	senders   []*sender
	receivers []*receiver
	sending   sync.WaitGroup // unfinished senders
	stopSend  atomic.Bool    // stops the senders
	stop      atomic.Bool    // stops all threads
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

	// A polling thread never yields its processor.
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

// newRunning returns a thread per worker of each port. If both are one port, a thread sends and
// receives, because a queue belongs to one thread.
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

// place assigns cores to the workers.
func (r *running) place(cpus []int) error {
	if len(cpus) == 0 {
		all, err := affinity.CPUs()
		if err != nil {
			return err
		}
		if len(all) > len(r.workers) { // otherwise the kernel schedules them
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

// tick is the interval at which a run is checked.
const tick = time.Millisecond

// send waits until all packets are sent, and received or lost.
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

// listen waits until the end of receiving.
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

// received returns the number of different packets received.
func (r *running) received() (n uint64) {
	for _, c := range r.receivers {
		n += c.received.Load()
	}
	return n
}
