package gpu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/gopacket/gopacket/layers"

	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/packet/icmp"
)

// clear returns a cleartext packet from sport to dport, mostly to a routed address.
func (w *securedTwins) clear(ipv6 bool, sport, dport int) []byte {
	nets := []int{1, 1, 1, 1, 1, 1, 2, 3, 4, 7, 11}
	net := nets[w.rnd.IntN(len(nets))]
	payload := randomBytes(w.rnd, w.size())
	var f []byte
	if ipv6 {
		f = testutil.UDP6("2001:db8::1", fmt.Sprintf("fd%02x::%x", net, 1+w.rnd.IntN(1000)), uint16(sport), uint16(dport), payload...)
		f = testutil.Edit(f, 0, 0x60|byte(w.rnd.IntN(16)), byte(w.rnd.IntN(256)))
		return testutil.Edit(f, 7, w.ttl())
	}
	f = testutil.UDP4("192.0.2.1", fmt.Sprintf("10.%d.0.%d", net, 1+w.rnd.IntN(250)), uint16(sport), uint16(dport), payload...)
	f = testutil.Edit(f, 1, byte(w.rnd.IntN(256)))
	f = testutil.Edit(f, 6, byte(w.rnd.IntN(2)<<6))
	return testutil.Edit(f, 8, w.ttl())
}

// syn returns the first segment of a TCP connection, with an MSS option.
func (w *securedTwins) syn(ipv6 bool, dport int) []byte {
	tcp := &layers.TCP{SrcPort: 1024, DstPort: layers.TCPPort(dport), SYN: true, Options: []layers.TCPOption{{
		OptionType: layers.TCPOptionKindMSS, OptionLength: 4, OptionData: []byte{8960 >> 8, 8960 & 0xff},
	}}}
	if ipv6 {
		ip := testutil.IPv6("2001:db8::1", "fd01::9", layers.IPProtocolTCP)
		_ = tcp.SetNetworkLayerForChecksum(ip)
		return testutil.Frame(testutil.Ethernet(layers.EthernetTypeIPv6), ip, tcp)
	}
	ip := testutil.IPv4("192.0.2.1", "10.1.0.9", layers.IPProtocolTCP)
	_ = tcp.SetNetworkLayerForChecksum(ip)
	return testutil.Frame(testutil.Ethernet(layers.EthernetTypeIPv4), ip, tcp)
}

// icmpError returns an ICMP error about a packet, genuine or forged.
func (w *securedTwins) icmpError(ipv6 bool, sport, dport int) []byte {
	quoted, from := w.clear(ipv6, sport, dport), "203.0.113.1"
	p, typ, dst := quoted[packet.EthernetLen:], packet.IPv4Len, 16
	a, b := p[12:16], p[16:20]
	if ipv6 {
		a, b, from, typ, dst = p[8:24], p[24:40], "2001:db8:f::1", packet.IPv6Len, 24
	}
	was := bytes.Clone(a)
	copy(a, b)
	copy(b, was)
	f := make([]byte, packet.EthernetLen+1280)
	copy(f, quoted[:packet.EthernetLen])
	n := icmp.Build(f[packet.EthernetLen:], p, icmp.Error{Cause: icmp.TimeExceeded}, netip.MustParseAddr(from), 1)
	f = f[:packet.EthernetLen+n]
	switch w.rnd.IntN(6) {
	case 0:
		return testutil.Edit(f, typ, byte(w.rnd.IntN(16)))
	case 1:
		return testutil.Edit(f, dst+3, byte(w.rnd.IntN(4)))
	case 2:
		return w.cut(f)
	}
	return f
}

func (w *securedTwins) size() int {
	if w.rnd.IntN(2) == 0 {
		return w.rnd.IntN(100)
	}
	return w.rnd.IntN(1400)
}

func (w *securedTwins) ttl() byte {
	if w.rnd.IntN(20) == 0 {
		return byte(w.rnd.IntN(3))
	}
	return 64
}

// protected returns a packet from the far end of an SA with frame as its payload. alter changes the
// plaintext.
func (w *securedTwins) protected(a *association, frame []byte, alter func(text []byte)) []byte {
	const at = 256
	buf := make([]byte, 4096)
	inner := frame[packet.EthernetLen:]
	if a.Mode == ipsec.Transport { // to a local address
		if a.Dst.Is4() {
			inner = testutil.Edit(frame, 16, a.Dst.AsSlice()...)[packet.EthernetLen:]
		} else {
			inner = testutil.Edit(frame, 24, a.Dst.AsSlice()...)[packet.EthernetLen:]
		}
	}
	copy(buf[at:], inner)
	var o ipsec.Outgoing
	if err := a.far.Prepare(0, buf, at, len(inner), &o); err != ipsec.OK {
		return frame
	}
	a.far.Seal(0, buf, &o)
	if alter != nil {
		esp := buf[o.ESP : o.At+o.Len]
		if !a.host.Open(esp, uint32(o.Seq>>32), a.ESN) {
			w.t.Fatalf("%s: the far end cannot open its own packet", a.Name)
		}
		alter(esp[8+a.suite.IVLen : len(esp)-a.suite.ICVLen])
		a.host.Seal(esp, uint32(o.Seq>>32), a.ESN)
	}
	f := bytes.Clone(frame[:packet.EthernetLen])
	(*packet.Ethernet)(f).SetType(packet.EtherTypeIPv4)
	if buf[o.At]>>4 == 6 {
		(*packet.Ethernet)(f).SetType(packet.EtherTypeIPv6)
	}
	return append(f, buf[o.At:o.At+o.Len]...)
}

// inbound returns a packet of an inbound SA, mostly valid.
func (w *securedTwins) inbound(k int) []byte {
	a := w.all[k]
	ipv6 := w.rnd.IntN(2) == 0
	if a.Mode == ipsec.Transport {
		ipv6 = a.Dst.Is6()
	}
	frame := w.clear(ipv6, inPort+k, 9)
	switch w.rnd.IntN(12) {
	case 0: // by another SA
		frame = w.clear(ipv6, inPort+w.rnd.IntN(len(w.all)), 9)
	case 1: // to be protected again: by the CPU engine, in the order of the aligned packets
		if w.askew {
			break
		}
		frame = w.clear(ipv6, inPort+k, outPort+len(w.all)-1-w.rnd.IntN(2))
	case 2: // random
		if f := w.traffic.Frame(); a.Mode == ipsec.Tunnel && len(f) < 1400 {
			frame = f
		}
	case 4:
		if a.Mode == ipsec.Tunnel {
			frame = w.icmpError(ipv6, 9, inPort+k)
		}
	case 3: // already ESP
		if other := w.rnd.IntN(len(w.all)); len(frame) < 1000 {
			frame = w.protected(w.all[other], w.clear(w.all[other].Dst.Is6(), inPort+other, 9), nil)
		}
	}
	var alter func([]byte)
	choice := w.rnd.IntN(16)
	switch choice {
	case 0: // a wrong trailer
		alter = func(text []byte) { text[len(text)-1-w.rnd.IntN(min(4, len(text)))] = byte(w.rnd.Uint32()) }
	case 1: // a dummy
		alter = func(text []byte) { text[len(text)-1] = 59 }
	case 2: // a wrong header inside
		alter = func(text []byte) { text[w.rnd.IntN(min(40, len(text)))] = byte(w.rnd.Uint32()) }
	case 3: // TFC padding (RFC 4303 section 2.7)
		if len(frame) < 1300 {
			frame = append(frame, randomBytes(w.rnd, w.rnd.IntN(60))...)
		}
	}
	p := w.protected(a, frame, alter)
	switch choice {
	case 4: // forged
		return w.forged(p)
	case 5, 6: // marked CE on the way
		if p[packet.EthernetLen]>>4 == 4 {
			p = testutil.Edit(p, 1, byte(w.rnd.IntN(256)))
		} else {
			p = testutil.Edit(p, 1, p[packet.EthernetLen+1]&0xf|byte(w.rnd.IntN(16)<<4))
		}
	case 7: // cut
		return w.cut(p)
	case 8: // received again
		if len(a.sent) > 0 && !w.askew { // of two, the CPU engine accepts the first aligned one
			return a.sent[w.rnd.IntN(len(a.sent))]
		}
	}
	a.sent = append(a.sent[max(len(a.sent)-4, 0):], p)
	return p
}

// forged flips a bit of a packet, after its first 40 bytes and not in its sequence number. With a
// repeated sequence number the engines may differ: the CPU has accepted the earlier packet and reports
// a replay, the device authenticates both and reports a forgery.
func (w *securedTwins) forged(p []byte) []byte {
	_, at, is := ipsec.Inbound(p[packet.EthernetLen:])
	for number := packet.EthernetLen + at + 4; ; {
		i := packet.EthernetLen + 40 + w.rnd.IntN(len(p)-packet.EthernetLen-40)
		if !is || i < number || i >= number+4 {
			p[i] ^= 1 << w.rnd.IntN(8)
			return p
		}
	}
}

// cut shortens a packet, possibly into its headers.
func (w *securedTwins) cut(f []byte) []byte {
	p := f[packet.EthernetLen:]
	n := 40 + w.rnd.IntN(len(p)-40)
	f = bytes.Clone(f[:packet.EthernetLen+n])
	if p[0]>>4 == 4 {
		return testutil.Edit(f, 2, byte(n>>8), byte(n))
	}
	binary.BigEndian.PutUint16(f[packet.EthernetLen+4:], uint16(n-40))
	return f
}

func (w *securedTwins) next() []byte {
	k := w.rnd.IntN(len(w.all) - 2) // the last two are for what is protected again
	switch w.rnd.IntN(8) {
	case 0:
		return w.traffic.Frame()
	case 1:
		if w.rnd.IntN(4) == 0 {
			return w.icmpError(w.rnd.IntN(2) == 0, outPort+k, inPort+w.rnd.IntN(len(w.all)))
		}
		fallthrough
	case 2, 3:
		return w.clear(w.rnd.IntN(2) == 0, 9, outPort+k)
	}
	return w.inbound(k)
}
