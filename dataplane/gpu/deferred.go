package gpu

import (
	"encoding/binary"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

// A gateway's chunk on the CPU can overtake chunks on the GPU: it is executed when it is submitted, and they
// record their sequence numbers when they are done. Replay windows would move past their packets, and drop
// them. So the CPU defers a chunk with received ESP until the chunks before it are done. Chunks behind it
// are deferred, too, as packets that leave later would take lower sequence numbers; and so are those behind a chunk
// whose packets have no numbers yet (passes.go). By default ESP to this gateway, and packets to seal, are in one lane: chunks
// of other lanes wait for none of these. (If a configuration divides them among lanes, order holds in each lane alone.)

// defers reports whether the CPU executes a chunk only when it is the next to complete.
func (e *Engine) defers(c *batch.Chunk) bool {
	l := &e.lanes[c.Lane]
	return e.esp != nil && (l.deferred > 0 || l.inFirstPass > 0 || e.onGPU.Load() > 0 && e.mayReceiveESP(c))
}

// mayReceiveESP reports whether a packet of a chunk may be ESP to this gateway.
func (e *Engine) mayReceiveESP(c *batch.Chunk) bool {
	for _, f := range c.In[:c.N] {
		if mayBeESP(e.umem[f.Addr:][:f.Len]) {
			return true
		}
	}
	return false
}

// mayBeESP reports whether a frame may have ESP in IP, or in UDP to port 4500. It is true of packets with
// headers in between.
func mayBeESP(frame []byte) bool {
	const ipv4Protocol, ipv6Next, esp = packet.EthernetLen + 9, packet.EthernetLen + 6, 50
	if len(frame) < packet.EthernetLen+packet.IPv4Len {
		return false
	}
	protocol, end, plain := frame[ipv4Protocol], packet.EthernetLen+packet.IPv4Len, frame[packet.EthernetLen] == 0x45
	if frame[packet.EthernetLen]>>4 == 6 {
		protocol, end, plain = frame[ipv6Next], packet.EthernetLen+packet.IPv6Len, true
	}
	switch packet.Protocol(protocol) {
	case packet.TCP, packet.ICMP, packet.ICMPv6:
		return false
	case packet.UDP:
		return !plain || len(frame) >= end+4 && binary.BigEndian.Uint16(frame[end+2:]) == ipsec.PortNATT
	}
	return protocol == esp || !plain || frame[packet.EthernetLen]>>4 == 6
}

// executeDeferred executes a chunk that was deferred. All chunks before it are done.
func (e *Engine) executeDeferred(f *flight) {
	if f.deferred {
		f.deferred = false
		e.lanes[f.chunk.Lane].deferred--
		e.cpu.Submit(f.chunk)
	}
}
