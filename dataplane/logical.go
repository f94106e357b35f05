package dataplane

import (
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/counter"
)

// logicalPort are one worker's counters of a logical port. Only the worker adds.
type logicalPort struct {
	rxPackets, rxBytes, txPackets, txBytes counter.Counter
	exitPackets, exitBytes                 atomic.Uint64                   // by ingress port
	drops                                  [batch.NumReasons]atomic.Uint64 // by ingress port
}

// logicalPorts are a worker's logical ports.
type logicalPorts struct {
	table   *fib.VLANs
	all     []atomic.Pointer[logicalPort] // by port number; nil before AddPort
	tallies *[batch.MaxPorts]logicalTally // by port number, since the last flush
	touched []uint16                      // numbers with tallies
	flushed time.Duration                 // of the last flush, by batch.Clock
	scratch []byte                        // a transmitted frame without its tags, for captures
}

// logicalTally counts the packets of a logical port. It is 0 if the port is not in touched.
type logicalTally struct{ rx, tx packedTally }

// packedTally is a number of packets and of their bytes in one word, so that a packet costs one addition.
//
//	 63        62       40 39      0
//	+---------+-----------+---------+
//	| touched | packets   | bytes   |
//	+---------+-----------+---------+
type packedTally uint64

const (
	talliedPacket  packedTally = 1 << 40
	talliedTouched packedTally = 1 << 63 // in rx
)

// packed returns the tally of a number of packets.
func packed(packets, bytes int) packedTally {
	return packedTally(packets)*talliedPacket + packedTally(bytes)
}

// bytes returns the bytes. They can be negative, modulo 2^64: a frame that is uncounted may have lost its VLAN.
func (t packedTally) bytes() uint64 { return uint64(int64(t) << 24 >> 24) }

func (t packedTally) packets() uint64 { return (uint64(t) - t.bytes()) << 1 >> 41 }

func newLogicalPorts(t *fib.VLANs, maxFrame int) logicalPorts {
	return logicalPorts{
		table: t, all: make([]atomic.Pointer[logicalPort], batch.MaxPorts), tallies: new([batch.MaxPorts]logicalTally),
		touched: make([]uint16, 0, batch.MaxPorts), scratch: make([]byte, maxFrame),
	}
}

// get returns a logical port, or nil.
func (l *logicalPorts) get(number uint16) *logicalPort { return l.all[number].Load() }

// tally returns the tally of a logical port, or nil if there is no such port.
func (l *logicalPorts) tally(number uint16) *logicalTally {
	t := &l.tallies[number%batch.MaxPorts]
	if t.rx == 0 && !l.touch(number) {
		return nil
	}
	return t
}

// touch has the tally of a port flushed. It reports false if there is no such port.
//
//go:noinline
func (l *logicalPorts) touch(number uint16) bool {
	if l.get(number) == nil {
		return false
	}
	l.tallies[number].rx = talliedTouched
	l.touched = append(l.touched, number)
	return true
}

// flushInterval is the time after which tallies are flushed.
const flushInterval = 10 * time.Millisecond

// flushOld flushes the tallies if the last flush is flushInterval ago.
func (l *logicalPorts) flushOld(now time.Duration) {
	if now-l.flushed >= flushInterval {
		l.flushed = now
		l.flush()
	}
}

// flush adds the tallies to the counters, which readers see.
func (l *logicalPorts) flush() {
	for _, number := range l.touched {
		p, t := l.get(number), &l.tallies[number]
		counter.AddPair(&p.rxPackets, &p.rxBytes, t.rx.packets(), t.rx.bytes())
		counter.AddPair(&p.txPackets, &p.txBytes, t.tx.packets(), t.tx.bytes())
		*t = logicalTally{}
	}
	l.touched = l.touched[:0]
}

// tagBytes returns the length of the tags of a logical port, 0 if it was deleted.
func (l *logicalPorts) tagBytes(number uint16) int {
	return l.table.Carrier(number).Tags() * fib.TagLen
}

// uncount subtracts a frame that did not fit the transmit ring from the transmitted ones of its
// logical port, and of the bond that carries it.
func (w *worker) uncount(f batch.Frame, number uint16) {
	l := &w.logical
	if bond := l.table.Carrier(number).Port(); int(bond) >= len(w.tx) && bond != number {
		l.tallies[bond].tx -= packed(1, int(f.Len))
	}
	l.tallies[number].tx -= packed(1, int(f.Len)-l.tagBytes(number))
}
