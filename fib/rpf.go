package fib

// RPFMode is a mode of reverse path filtering (RFC 3704, rp_filter).
type RPFMode uint8

const (
	RPFOff    RPFMode = iota // no check
	RPFLoose                 // a route to the source must exist
	RPFStrict                // a route to the source must lead over the ingress port
)

// RPF is the reverse path filtering of a port, in a word for received packets with the port's VRF:
//
//	 31 30        16 15     8 7      0
//	+--+------------+--------+--------+
//	|0 | VRF        | IPv6   | IPv4   |
//	+--+------------+--------+--------+
type RPF struct{ IPv4, IPv6 RPFMode }

const (
	VRFShift = 16 // of a port's VRF in the word
	rpfMask  = 1<<VRFShift - 1
)

// SetRPF sets the reverse path filtering of a port, RPFOff by default.
func (f *FIB) SetRPF(port uint16, r RPF) {
	was, word := f.RPF(port), uint32(r.IPv4)|uint32(r.IPv6)<<8
	if was == r {
		return
	}
	f.setIngress(port, f.ingress(port)&^rpfMask|word)
	if was == (RPF{}) {
		f.rpfPorts.Add(1)
	} else if r == (RPF{}) {
		f.rpfPorts.Add(-1)
	}
}

// RPF returns the reverse path filtering of a port.
func (f *FIB) RPF(port uint16) RPF {
	word := f.ingress(port)
	return RPF{RPFMode(word), RPFMode(word >> 8)}
}

// HasRPF reports whether any port filters by reverse path.
func (f *FIB) HasRPF() bool { return f.rpfPorts.Load() > 0 }

// PassesRPF reports whether a packet passes reverse path filtering on its ingress port, given the
// next hop of its source.
func (f *FIB) PassesRPF(mode RPFMode, port uint16, source NextHopID) bool {
	hop := f.NextHop(source)
	switch {
	case mode == RPFOff:
		return true
	case hop.Kind() == KindForward:
		return mode == RPFLoose || f.hasPathOver(hop, port)
	}
	return mode == RPFLoose && hop.Kind() == KindNoPort // over an interface that is not a port
}
