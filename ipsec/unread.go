package ipsec

import "github.com/warproute/warproute/internal/counter"

// A device can encapsulate packets that the host has not read, in tunnel mode. The host knows their lengths, and takes
// their sequence numbers.

// maxDeviceSeq is the largest sequence number that a device gets: a job has 48 bits for it.
const maxDeviceSeq = 1<<48 - 1

// HeaderLens returns the length of the headers in front of an encapsulated packet, from the outer one to the IV, and of these
// from the SPI on, in bytes.
func (s *SA) HeaderLens() (all, esp int) {
	esp = espLen + int(s.iv)
	return int(s.outer+s.udp) + esp, esp
}

// ESPLen returns the length of the ESP of a packet of n bytes, from the SPI to the end of the ICV.
func (s *SA) ESPLen(n int) int {
	used := n + trailerLen
	return espLen + int(s.iv) + used + -used&(int(s.align)-1) + int(s.icv)
}

// TunnelLayout has the lengths of an SA's headers in bytes, for packets that the host has not read.
type TunnelLayout struct {
	HeaderLen, ESPHeaderLen uint8 // see HeaderLens
	fixed, mask             uint8
}

// TunnelLayout returns the lengths.
func (s *SA) TunnelLayout() TunnelLayout {
	all, esp := s.HeaderLens()
	return TunnelLayout{HeaderLen: uint8(all), ESPHeaderLen: uint8(esp), fixed: uint8(esp) + s.icv, mask: s.align - 1}
}

// ESPLen is ESPLen of the SA.
func (l TunnelLayout) ESPLen(n int) int {
	used := n + trailerLen
	return int(l.fixed) + used + -used&int(l.mask)
}

// Counts are packets and bytes of an SA that one worker counts.
type Counts struct{ packets, bytes counter.Counter }

// Counts returns those of a worker, for packets that a device has sealed or opened. Adding to them checks no limit. For an inbound SA, those
// of the first worker that asks are in the cache line of the window, which it changes anyway when it confirms the numbers of several packets.
// Count has counters elsewhere: it is called for each packet, and other workers read that line.
func (s *SA) Counts(w int) *Counts {
	if s.direction == In && (s.main.Load() == int32(w)+1 || s.main.CompareAndSwap(0, int32(w)+1)) {
		return &s.mainCounts
	}
	return &s.workers[w].Counts
}

// Add adds packets and their bytes.
func (c *Counts) Add(packets, bytes uint64) { counter.AddPair(&c.packets, &c.bytes, packets, bytes) }

// CountEach adds a packet to each of counts, and the bytes with the same index.
func CountEach(all []*Counts, bytes []uint64) { counter.AddToEach(all, bytes) }

// NumberUnread takes consecutive sequence numbers for up to most packets of a worker, beginning with first. It does what
// Prepare does apart from the headers: it checks the lifetime, and counts the packets, which have the given number
// of bytes in all. An SA with limits in packets or bytes (Limited) takes one at a time.
//
// If devices cannot write a number, n is less than most, and the other packets are not counted: the caller calls
// Prepare for them.
func (s *SA) NumberUnread(w, most int, bytes uint64) (first uint64, n int, e Error) {
	if !s.ready(Out) {
		if e := s.usable(Out); e != OK {
			return 0, 0, e
		}
	}
	r := &s.workers[w].reserved
	if r.next == r.end && !s.fill(r, most) {
		return 0, 0, OutStateSeqError
	}
	if !r.forDevice || r.end-r.next < uint64(most) {
		return 0, 0, OK
	}
	first = r.next
	r.next += uint64(most)
	if s.counted && !s.within(1, bytes) {
		return 0, 0, OutStateExpired
	}
	s.workers[w].Add(uint64(most), bytes)
	return first, most, OK
}

// PutNonceBase writes the current base of nonces to the key record of an SA, before it is copied to devices.
func (s *SA) PutNonceBase() { s.key.SetNonceBase(s.nonces.Base()) }
