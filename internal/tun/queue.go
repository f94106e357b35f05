package tun

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/offload"
)

// Queue is a queue of a device. One goroutine uses it; no method blocks, locks or allocates. The host
// receives the packets of a queue in order, and sends packets of a flow to the queue that has last sent
// packets of this flow to the host.
type Queue struct {
	fd     int
	merger *offload.Merger
	noUDP  bool // the kernel does not accept large UDP packets
	closed bool // the interface was deleted
	vector vector
	head   [offload.HeaderLen]byte

	in    []byte // the latest packet of the host, with its header
	split offload.Splitter
	large uint64 // packets of the host that did not fit a buffer
}

func newQueue(fd, burst int) *Queue {
	return &Queue{fd: fd, merger: offload.NewMerger(burst), in: make([]byte, offload.HeaderLen+offload.MaxPacket+1)}
}

// FD returns the file descriptor for poll(2).
func (q *Queue) FD() int { return q.fd }

// Send passes valid IP packets to the host, in order within a flow, and stores what becomes of each in
// results. It stops when the budget is spent, a budget of 0 or less sends none, and returns the time that
// writing took. Linux processes a packet while it is written, and may forward it. The packets may change.
func (q *Queue) Send(packets [][]byte, results []offload.Result, budget time.Duration) (spent time.Duration) {
	if len(packets) == 0 {
		return 0
	}
	groups := q.merger.Group(packets, q.noUDP)
	start := batch.Clock()
	for i := range groups {
		g := &groups[i]
		result := offload.Limited
		if spent < budget {
			result = q.write(packets, g)
			spent = batch.Clock() - start
		}
		for p := g.First; p >= 0; p = q.merger.Next(p) {
			results[p] = result
		}
	}
	return spent
}

// write writes the packets of a group as one.
func (q *Queue) write(packets [][]byte, g *offload.Group) offload.Result {
	if q.closed {
		return offload.Failed
	}
	head := offload.Header{}
	if g.Packets > 1 {
		last := g.First
		for p := q.merger.Next(last); p >= 0; p = q.merger.Next(p) {
			last = p
		}
		head = offload.Finish(packets[g.First], packets[last], g)
	}
	head.Put(&q.head)
	q.vector.add(q.head[:])
	q.vector.add(packets[g.First])
	for p := q.merger.Next(g.First); p >= 0; p = q.merger.Next(p) {
		q.vector.add(packets[p][head.PayloadAt():])
	}
	switch err := q.vector.write(q.fd); err {
	case 0:
		return offload.Sent
	case unix.EBADFD:
		q.closed = true
	}
	return offload.Failed
}

// Receive stores packets of the host in buffers and their lengths in sizes, and returns their number. more
// reports whether there may be others. Packets that exceed their buffer are dropped.
func (q *Queue) Receive(buffers [][]byte, sizes []int) (n int, more bool) {
	for reads := 0; n < len(buffers); {
		size := q.split.Len()
		switch {
		case size > len(buffers[n]):
			q.split.Skip()
			q.large++
			continue
		case size > 0:
			sizes[n] = q.split.Next(buffers[n])
			n++
			continue
		case reads == len(buffers):
			return n, true
		}
		reads++
		length, err := read(q.fd, q.in)
		if err != 0 {
			return n, false
		}
		if length > offload.HeaderLen && length < len(q.in) { // a packet that fills the buffer may be cut
			q.split.Begin(offload.ParseHeader((*[offload.HeaderLen]byte)(q.in)), q.in[offload.HeaderLen:length])
		}
	}
	return n, q.split.Len() > 0
}
