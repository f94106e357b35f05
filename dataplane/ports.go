package dataplane

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
)

// Physical ports can be added and removed while the workers run. A change is a function that each worker
// calls between two chunks (callWorkers), so that the path of a packet has no lock for it: workers replace
// their lists of queues themselves.
//
//	OpenPort    the workers list the queues: they receive, and transmit packets that engines send to the port
//	ClosePort   1. the queues get no more frames to receive into
//	            2. the workers process received packets, and complete the chunks and transmissions in flight
//	            3. the queues return their frames; packets that engines still send to the port are dropped
//
// The caller stops the port's reception and changes the FIB before ClosePort. A number that was closed is
// opened again when no packet can refer to the earlier port (fib.PortNumbers).

// ReleasableQueue is a queue of a port that can be removed.
type ReleasableQueue interface {
	Queue
	// Pending returns the number of received frames that Receive has not returned.
	Pending() int
	// Release puts all frames of the queue back into the pool. It returns the packets, and their bytes,
	// that Transmit took and that were not transmitted. The queue is not used again.
	Release() (packets, bytes uint64)
}

// portQueues are a worker's queues of a physical port.
type portQueues struct {
	port    int
	all     []Queue
	closing bool // they get no frames to receive into
}

func (w *worker) newEgress(queues []Queue) egress {
	frames := make([]batch.Frame, w.chunkLen)
	return egress{queue: queues[0], frames: frames, words: batch.Words(frames), ports: make([]uint16, w.chunkLen)}
}

// arrange replaces the lists that are made of the ports' queues.
func (w *worker) arrange() {
	n := 0
	for _, p := range w.queues {
		n += len(p.all)
	}
	rx := &w.rx
	rx.queues, rx.filled, rx.first = make([]Queue, 0, n), make([]Queue, 0, n), 0
	w.open, w.pollFD = make([]uint16, 0, len(w.queues)), make([]unix.PollFd, 0, n+2)
	for _, p := range w.queues {
		w.open = append(w.open, uint16(p.port))
		for _, q := range p.all {
			rx.queues = append(rx.queues, q)
			if !p.closing {
				rx.filled = append(rx.filled, q)
			}
			if fd := q.FD(); fd >= 0 {
				w.pollFD = append(w.pollFD, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
			}
		}
	}
	first := len(w.pollFD)
	for _, h := range []HostQueue{w.host.HostQueue, w.exit.HostQueue} {
		if h != nil {
			w.pollFD = append(w.pollFD, unix.PollFd{Fd: int32(h.FD()), Events: unix.POLLIN})
		}
	}
	w.hostFD = w.pollFD[first:]
	rx.setQuota()
}

// setQuota divides a chunk among the queues.
func (rx *receiver) setQuota() { rx.quota = max(1, rx.maxPackets/max(1, len(rx.queues))) }

// find returns the index in queues of a port, or of the first with a higher number.
func (w *worker) find(port int) int {
	for i, p := range w.queues {
		if p.port >= port {
			return i
		}
	}
	return len(w.queues)
}

// OpenPort adds a physical port, with its queues by worker, one or more each. The number has no port. The
// FIB entry of the port follows.
func (r *Router) OpenPort(port int, queues [][]Queue) error {
	switch {
	case port < 0 || port >= r.ports:
		return fmt.Errorf("open port %d: the router has the numbers 0 to %d", port, r.ports-1)
	case len(queues) != len(r.workers):
		return fmt.Errorf("open port %d: queues of %d workers, not of %d", port, len(queues), len(r.workers))
	}
	out := make([]egress, len(r.workers))
	for i, all := range queues {
		if len(all) == 0 {
			return fmt.Errorf("open port %d: worker %d has no queue of it", port, i)
		}
		for _, q := range all {
			if _, ok := q.(ReleasableQueue); !ok {
				return fmt.Errorf("open port %d: a %T cannot be removed again", port, q)
			}
		}
		out[i] = r.workers[i].newEgress(all)
	}
	if !r.openCounters(port) {
		return fmt.Errorf("open port %d: the number has a port", port)
	}
	r.callWorkers(func(w *worker) {
		w.tx[port] = out[w.index]
		at := w.find(port)
		w.queues = slices.Insert(w.queues, at, portQueues{port: port, all: queues[w.index]})
		w.arrange()
	})
	return nil
}

// ClosePort removes a physical port whose reception has ended. It waits for the workers, and up to a limit for packets
// in flight. When it returns, no worker uses the queues. Packets that were still in them are counted: received ones by
// the queue, those to transmit as dropped (batch.PortDown) by this port. The error says that the port is not open.
func (r *Router) ClosePort(port int, limit time.Duration) error {
	if port < 0 || port >= r.ports || !r.physical.isOpen(port) {
		return fmt.Errorf("close port %d: it is not open", port)
	}
	r.callWorkers(func(w *worker) {
		w.queues[w.find(port)].closing = true
		w.arrange()
	})
	r.drain(port, limit)
	r.callWorkers(func(w *worker) { w.closePort(port) })
	r.physical.close(port)
	return nil
}

// drain waits until the workers have processed all packets that the port received or is to transmit, or until the limit.
func (r *Router) drain(port int, limit time.Duration) {
	passed := r.fib.Passed()
	busy := make([]bool, len(r.workers))
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		decided := passed() // before the transmit rings are read
		r.callWorkers(func(w *worker) {
			busy[w.index] = false
			for _, q := range w.queues[w.find(port)].all {
				n := q.Reclaim()
				if q, ok := q.(ReleasableQueue); ok {
					n += q.Pending()
				}
				busy[w.index] = busy[w.index] || n > 0
			}
		})
		if decided && !slices.Contains(busy, true) {
			return
		}
	}
}

// closePort takes the frames of a port's queues, and forgets the queues.
func (w *worker) closePort(port int) {
	at := w.find(port)
	for _, q := range w.queues[at].all {
		q, ok := q.(ReleasableQueue)
		if !ok {
			continue
		}
		packets, bytes := q.Release()
		c := &w.counters[port]
		c.txPackets.Add(-packets)
		c.txBytes.Add(-bytes)
		c.drops[batch.PortDown].Add(packets)
	}
	w.tx[port] = egress{}
	w.queues = slices.Delete(w.queues, at, at+1)
	w.arrange()
	w.stats.free.Store(int64(w.pool.Len()))
}
