package dataplane

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/counter"
	"github.com/warproute/warproute/internal/prefetch"
	"github.com/warproute/warproute/umem"
)

// Frames of VLANs have their tags only between a port and its worker. The worker removes the tags of
// received frames and makes the VLAN's logical port their origin (fib.VLANs), so that engines see
// untagged frames of more ports. It adds the tags before it transmits a frame. Removing and adding move
// the MAC addresses by four bytes per tag, in the headroom of the frame.

// macsLen is the length of both MAC addresses, which the tags follow.
const macsLen = 12

// EtherTypes of tags, as loaded from a frame in little-endian order.
const (
	tpidQ  = 0x0081
	tpidAD = 0xa888
)

// logicalPort are one worker's counters of a logical port. Only the worker adds, first to the tallies.
type logicalPort struct {
	rx, tx                                 tally // since the last flush
	rxPackets, rxBytes, txPackets, txBytes counter.Counter
	exitPackets, exitBytes                 atomic.Uint64                   // by ingress port
	drops                                  [batch.NumReasons]atomic.Uint64 // by ingress port
}

// logicalPorts are a worker's logical ports.
type logicalPorts struct {
	table   *fib.VLANs
	all     []atomic.Pointer[logicalPort] // by port number; nil before AddPort
	touched []*logicalPort                // with tallies
	age     int                           // iterations since the last flush
	scratch []byte                        // a transmitted frame without its tags, for captures
}

func newLogicalPorts(t *fib.VLANs, maxFrame int) logicalPorts {
	return logicalPorts{
		table: t, all: make([]atomic.Pointer[logicalPort], batch.MaxPorts),
		touched: make([]*logicalPort, 0, 2*batch.MaxPorts), scratch: make([]byte, maxFrame),
	}
}

// get returns a logical port, or nil.
func (l *logicalPorts) get(number uint16) *logicalPort { return l.all[number].Load() }

// touch has the tallies of a port flushed. It precedes a change of them.
func (l *logicalPorts) touch(p *logicalPort) {
	if p.rx.packets|p.tx.packets == 0 && len(l.touched) < cap(l.touched) {
		l.touched = append(l.touched, p)
	}
}

// flushEvery is the maximum number of iterations without a flush of the tallies.
const flushEvery = 16

// flushOld flushes the tallies in every flushEvery-th call.
func (l *logicalPorts) flushOld() {
	if l.age++; l.age >= flushEvery {
		l.flush()
	}
}

// flush adds the tallies to the counters, which readers see.
func (l *logicalPorts) flush() {
	l.age = 0
	if len(l.touched) == 0 {
		return
	}
	for _, p := range l.touched {
		counter.AddPair(&p.rxPackets, &p.rxBytes, p.rx.packets, p.rx.bytes)
		counter.AddPair(&p.txPackets, &p.txBytes, p.tx.packets, p.tx.bytes)
		p.rx, p.tx = tally{}, tally{}
	}
	l.touched = l.touched[:0]
}

// moveMACs moves the MAC addresses of a frame.
func moveMACs(from, to []byte) {
	first, rest := binary.LittleEndian.Uint64(from), binary.LittleEndian.Uint32(from[8:])
	binary.LittleEndian.PutUint64(to, first)
	binary.LittleEndian.PutUint32(to[8:], rest)
}

// untag removes the VLAN tags of a burst of frames that a port received, and returns how many frames it
// keeps: it drops frames of unknown VLANs. The headers are prefetched, because this is their first use.
//
// Engines overwrite the MAC addresses of packets that they forward, so those of frames with one tag are
// only moved for captures.
func (w *worker) untag(frames []batch.Frame) (kept int) {
	prefetch.ReadAt(w.mem, frames)
	var last vlan // of the frame before, which need not be looked up again
	parent := frames[0].Origin.Port()
	for _, f := range frames {
		b := (*[headerLen]byte)(w.mem[f.Addr:])
		tag := uint32(binary.LittleEndian.Uint64(b[8:]) >> 32)
		if kind := uint16(tag); kind == tpidQ || kind == tpidAD {
			inner := binary.LittleEndian.Uint16(b[macsLen+fib.TagLen:])
			if tag &= tagMask; tag != last.tag {
				last = w.vlanOf(parent, tag)
			}
			if last.port != nil && inner != tpidQ && inner != tpidAD && f.Len >= headerLen {
				if w.capture != nil {
					moveMACs(w.mem[f.Addr:], w.mem[f.Addr+fib.TagLen:])
				}
				f = batch.Frame{Addr: f.Addr + fib.TagLen, Len: f.Len - fib.TagLen, Origin: last.origin}
				w.logical.touch(last.port)
				last.port.rx.packets++
				last.port.rx.bytes += uint64(f.Len)
			} else if reason := w.removeTags(&f); reason != batch.Unprocessed {
				w.drop(f, reason)
				continue
			}
		}
		frames[kept] = f
		kept++
	}
	return kept
}

// headerLen is the length of an Ethernet header with one tag.
const headerLen = macsLen + fib.TagLen + 2

// tagMask selects EtherType and VID of a tag that was loaded in little-endian order.
const tagMask = 0xff0fffff

// vlan is the VLAN of a single tag.
type vlan struct {
	tag    uint32 // as loaded, masked
	origin batch.Origin
	port   *logicalPort // nil if the tag is of no VLAN
}

// vlanOf looks up a tag.
func (w *worker) vlanOf(parent uint16, tag uint32) vlan {
	t := fib.Tag(bits.ReverseBytes16(uint16(tag >> 16)))
	if uint16(tag) == tpidAD {
		t |= fib.ServiceTag
	}
	child, ok := w.logical.table.Child(parent, t)
	if !ok {
		return vlan{tag: tag}
	}
	return vlan{tag, batch.From(child), w.logical.get(child)}
}

// removeTags removes the tags of a frame, and sets its origin to the port of its VLAN. As in Linux, a tag
// with VID 0 that is of no VLAN only has a priority. The reason to drop the frame is batch.Unprocessed
// for none.
func (w *worker) removeTags(f *batch.Frame) batch.Reason {
	b := w.mem[f.Addr : uint64(f.Addr)+uint64(f.Len)]
	port, n := f.Origin.Port(), 0
	for len(b) >= n+macsLen+2 {
		tag, ok := fib.MakeTag(binary.BigEndian.Uint16(b[n+macsLen:]), 0)
		if !ok {
			break
		}
		if n == fib.MaxTags*fib.TagLen {
			return batch.VLANUnknown
		}
		if len(b) < n+macsLen+fib.TagLen+2 {
			return batch.TooShort
		}
		tag |= fib.Tag(binary.BigEndian.Uint16(b[n+macsLen+2:]) & 0xfff)
		child, known := w.logical.table.Child(port, tag)
		if known {
			port = child
		} else if tag.VID() != 0 {
			return batch.VLANUnknown
		}
		n += fib.TagLen
	}
	if n == 0 { // the frame ends before its EtherType
		return batch.Unprocessed
	}
	if port != f.Origin.Port() {
		p := w.logical.get(port)
		if p == nil {
			return batch.VLANUnknown
		}
		w.logical.touch(p)
		p.rx.packets++
		p.rx.bytes += uint64(f.Len) - uint64(n)
	}
	moveMACs(b, b[n:])
	*f = batch.Frame{Addr: f.Addr + uint32(n), Len: f.Len - uint16(n), Origin: batch.From(port)}
	return batch.Unprocessed
}

// listTagged adds the tags of a logical port to a frame, and adds the frame to the list of its physical
// port. It returns false, and does neither, if the port does not exist any longer.
func (w *worker) listTagged(f batch.Frame, port uint16) bool {
	carrier, p := w.logical.table.Carrier(port), w.logical.get(port)
	n := uint32(carrier.Tags() * fib.TagLen)
	if n == 0 || p == nil || int(carrier.Port()) >= len(w.tx) || f.Addr%umem.FrameSize < n {
		return false
	}
	w.logical.touch(p)
	p.tx.packets++
	p.tx.bytes += uint64(f.Len)
	f.Addr, f.Len = f.Addr-n, f.Len+uint16(n)
	b := (*[headerLen + fib.TagLen]byte)(w.mem[f.Addr:])
	moveMACs(b[n:], b[:])
	binary.BigEndian.PutUint32(b[macsLen:], uint32(carrier.Tag(0).EtherType())<<16|uint32(carrier.Tag(0).VID()))
	if n > fib.TagLen {
		binary.BigEndian.PutUint32(b[macsLen+fib.TagLen:], uint32(carrier.Tag(1).EtherType())<<16|uint32(carrier.Tag(1).VID()))
	}
	w.tx[carrier.Port()].add(f, port)
	return true
}

// uncountTagged subtracts a frame that did not fit the transmit ring from the transmitted ones of its
// logical port.
func (w *worker) uncountTagged(f batch.Frame, number uint16) {
	p := w.logical.get(number)
	w.logical.touch(p)
	p.tx.packets--
	p.tx.bytes -= uint64(f.Len) - uint64(w.logical.tagBytes(number))
}

// tagBytes returns the length of the tags of a logical port, 0 if it was deleted.
func (l *logicalPorts) tagBytes(number uint16) int {
	return l.table.Carrier(number).Tags() * fib.TagLen
}

// untagged returns a copy of a transmitted frame of a port without its tags. The kernel has the frame,
// so it is not changed. The copy is valid until the next call.
func (w *worker) untagged(number uint16, frame []byte) []byte {
	n := w.logical.tagBytes(number)
	to := w.logical.scratch[:len(frame)-n]
	copy(to, frame[:macsLen])
	copy(to[macsLen:], frame[macsLen+n:])
	return to
}
