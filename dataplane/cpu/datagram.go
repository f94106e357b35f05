package cpu

import (
	"math"

	"github.com/warproute/warproute/batch"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// The buffer of datagrams, in bytes. Headers of ESP grow into the room in front of a packet, as
// in a frame. A packet of maxDatagram bytes makes the longest frame whose length fits 16 bits;
// what becomes longer does not fit the buffer.
const (
	datagramAt   = umem.DataOffset + packet.EthernetLen
	maxDatagram  = math.MaxUint16 - packet.EthernetLen
	maxReceived  = packet.IPv6Len + math.MaxUint16
	frontOfESP   = packet.IPv6Len + 8 + 8 + 16 // outer header, UDP, SPI and number, IV: at most
	datagramRoom = datagramAt - frontOfESP + maxDatagram
)

// Datagram decides on an IP packet that was reassembled and that no frame holds, as Submit does
// on packets in frames: it is validated, decrypted or encrypted as the policies demand, and
// routed. port is the port and the marks of its last fragment.
//
// It returns the frame and the result that Submit would leave in a chunk, and the packet as it
// is now, which is valid until the next call. No port transmits it from there: a result to
// forward says that it would fit the MTU.
func (e *Engine) Datagram(p []byte, port uint16) (f batch.Frame, r batch.Result, now []byte) {
	if e.datagrams == nil {
		e.datagrams = &Engine{
			fib: e.fib, words: e.words, mem: make([]byte, datagramAt+maxReceived), largeSize: datagramRoom, repair: e.repair, ipsec: e.ipsec,
		}
	}
	return e.datagrams.datagram(p, port)
}

func (e *Engine) datagram(p []byte, port uint16) (f batch.Frame, r batch.Result, now []byte) {
	const start = datagramAt - packet.EthernetLen
	at, n := datagramAt, copy(e.mem[datagramAt:], p)
	now = e.mem[at : at+n]
	(*packet.Ethernet)(e.mem[start:]).SetType(etherType(now))
	e.ipsec.gateway.Clock.Set(batch.Clock())

	// The outermost ESP is removed first: with it, a packet may be too long for a frame's length.
	f.Port, e.ipsec.n = port, 0
	by, reason := e.arrive(e.mem[start:at+n], 0, nil)
	if by != nil {
		var err esp.Error
		if at, n, err = by.Decapsulate(e.ipsec.worker, e.mem, at, n); err != esp.OK {
			reason = reasonOf(err)
		} else if by.Mode() == esp.Tunnel {
			f.Port &^= batch.Merged
		}
	}
	if reason == ok && n > maxDatagram {
		reason = batch.XfrmInBufferError
	}
	if reason != ok {
		f.Port |= batch.Secured
		return f, batch.Result{Verdict: batch.Drop(reason)}, now
	}

	e.moved(&f, at, n)
	in, out := [1]batch.Frame{f}, [1]batch.Result{}
	e.secureBlock(in[:], out[:], nil, by)
	e.route(in[:], out[:], false)
	return in[0], out[0], e.frame(in[0])[packet.EthernetLen:]
}

// etherType returns the EtherType of an IP packet.
func etherType(p []byte) packet.EtherType {
	if p[0]>>4 == 6 {
		return packet.EtherTypeIPv6
	}
	return packet.EtherTypeIPv4
}
