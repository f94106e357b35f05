package differential

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"strconv"
)

// Maker generates random probes, most with up to two unusual features.
type Maker struct {
	*rand.Rand
	own6 []string // addresses of the router's host
}

// NewMaker returns a maker that always makes the same probes.
func NewMaker(seed1, seed2 uint64) *Maker { return &Maker{rand.New(rand.NewPCG(seed1, seed2)), own6} }

// Datagram makes a UDP packet between addresses of lists, in which an x is any byte.
func (m *Maker) Datagram(id uint32, side int, sources, destinations []string) *Probe {
	p := &Probe{id: id, side: side}
	p.ipv4Of(m.address(sources), m.address(destinations), 64, 17, 40)
	return p
}

func (m *Maker) one(n int) bool { return m.IntN(n) == 0 }

func pick[T any](m *Maker, from ...T) T { return from[m.IntN(len(from))] }

// addresses of a family, by kind. An x in a pattern is any byte.
var (
	plain4    = []string{"10.20.0.1", "10.20.x.x", "10.20.x.x", "10.21.x.x", "10.25.x.x", "10.26.x.x", "10.27.x.x", "10.8.0.3", "10.9.0.4"}
	special4  = []string{"10.22.x.x", "10.23.x.x", "10.24.x.x", "10.20.5.x", "10.28.x.x", "172.16.x.x", "8.8.8.8"}
	martian4  = []string{"0.0.0.0", "0.x.x.x", "127.0.0.1", "127.x.x.x", "169.254.x.x", "224.0.0.5", "224.x.x.x", "239.x.x.x", "240.x.x.x", "255.255.255.255"}
	own4      = []string{"10.7.0.1", "10.8.0.1", "10.9.0.1", "10.7.0.255", "10.8.0.255"}
	back4     = []string{"10.7.0.2", "10.7.0.3", "10.40.x.x", "10.63.x.x"} // behind lan
	elsewhere = []string{"10.20.x.x", "10.21.x.x", "10.28.x.x", "10.24.x.x", "10.22.x.x"}
	plain6    = []string{"fd20::1", "fd20::xx", "fd20::xx", "fd21::xx", "fd26::xx", "fd27::xx", "fd08::3", "fd09::4"}
	special6  = []string{"fd22::xx", "fd23::xx", "fd24::xx", "fd20:5::xx", "fd99::xx", "2001:db8::xx"}
	martian6  = []string{"::", "::1", "::2", "::ffff:10.20.0.1", "fe80::2", "fe80::xx", "febf::1", "fec0::1", "ff01::1", "ff02::1", "ff05::xx", "ff0e::xx", "64:ff9b::a14:1"}
	own6      = []string{"fd07::1", "fd08::1", "fd09::1"}
	back6     = []string{"fd07::2", "fd07::3", "fd32:1::xx", "fd32:2::xx"}
	otherwise = []string{"fd20::xx", "fd21::xx", "fd99::xx", "fd24::xx", "fd22::xx", "fd07::2", "fd08::2"}
)

// address returns an address of a list of patterns.
func (m *Maker) address(list []string) netip.Addr {
	text := []byte(list[m.IntN(len(list))])
	out := make([]byte, 0, len(text)+8)
	for _, c := range text {
		switch {
		case c != 'x':
			out = append(out, c)
		case bytes.IndexByte(text, ':') >= 0:
			out = append(out, "0123456789abcdef"[m.IntN(16)])
		default:
			out = strconv.AppendInt(out, 1+m.Int64N(254), 10)
		}
	}
	return netip.MustParseAddr(string(out))
}

// next generates a probe.
func (m *Maker) next(id uint32, side int) *Probe {
	for {
		p := &Probe{id: id, side: side}
		if m.one(200) {
			p.arp(side4(m.IntN(len(sides)), 1+m.IntN(2)))
			return p
		}
		if m.one(2) {
			m.four(p)
		} else {
			m.six(p)
		}
		if m.one(12) {
			m.onLink(p)
		}
		longest := 14 + 1500
		if side == narSide {
			longest = 14 + narMTU
		}
		if len(p.frame) >= 14 && len(p.frame) <= longest && !waits(p.frame) && p.known() {
			return p
		}
	}
}

// onLink changes the frame around the packet.
func (m *Maker) onLink(p *Probe) {
	switch m.IntN(6) {
	case 0, 1:
		p.frame = append(p.frame, bytes.Repeat([]byte{0xee}, 1+m.IntN(40))...)
	case 2:
		copy(p.frame, pick(m, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, []byte{1, 0, 0x5e, 0, 0, 5}, []byte{0x33, 0x33, 0, 0, 0, 1}, []byte{2, 0, 0, 0, 9, 9}))
	case 3:
		binary.BigEndian.PutUint16(p.frame[12:], pick[uint16](m, 0x0800, 0x86dd, 0x8847, 0x88cc, 46, 0x8100, 0x88a8))
	case 4: // a VLAN tag
		tag := []byte{0x81, 0, 0, byte(m.IntN(3))}
		p.frame = append(append(bytes.Clone(p.frame[:12]), tag...), p.frame[12:]...)
	case 5:
		copy(p.frame[6:], []byte{2, 0, 0, 0, 9, byte(m.IntN(4))}) // another host of the side
	}
}

// waits reports whether the fate of a packet depends on time: it waits for a missing neighbor, or its
// errors are rate-limited.
func waits(frame []byte) bool {
	b := frame[14:]
	if tagged := binary.BigEndian.Uint16(frame[12:]) == 0x8100; tagged && len(b) >= 4 {
		b = b[4:]
	}
	var dst, src netip.Addr
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		src, dst = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	case len(b) >= 40 && b[0]>>4 == 6:
		src, dst = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	default:
		return false
	}
	return stranger(src) || stranger(dst) || dst.Is6() && dst.IsLinkLocalUnicast() || limited(src, dst)
}

// limited reports whether Linux limits the errors about a packet regardless of the namespace's
// settings: those about unroutable packets to a shared address.
func limited(src, dst netip.Addr) bool {
	routed := netip.MustParsePrefix("10.20.0.0/15")
	for i := range sides {
		if src == side4(i, 255) {
			return !routed.Contains(dst) || dst.As4()[2] == 5
		}
	}
	return false
}

// stranger reports whether an address is an unused one on a side's link.
func stranger(a netip.Addr) bool {
	for i := range sides {
		if a.Is4() && netip.PrefixFrom(side4(i, 0), 24).Contains(a) {
			last := a.As4()[3]
			return last == 0 || last > 9 && last != 255
		}
		if a.Is6() && netip.PrefixFrom(side6(i, 0), 64).Contains(a) {
			return a.Compare(side6(i, 9)) > 0
		}
	}
	return false
}
