// Package testutil builds frames for tests, with a library that shares no code
// with the dataplane.
package testutil

import (
	"net"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Frame serializes layers into an Ethernet frame, lengths and checksums filled in.
func Frame(ls ...gopacket.SerializableLayer) []byte {
	var network gopacket.NetworkLayer
	for _, l := range ls {
		switch l := l.(type) {
		case *layers.IPv4:
			network = l
		case *layers.IPv6:
			network = l
		case *layers.TCP:
			must(l.SetNetworkLayerForChecksum(network))
		case *layers.UDP:
			must(l.SetNetworkLayerForChecksum(network))
		case *layers.ICMPv6:
			must(l.SetNetworkLayerForChecksum(network))
		}
	}
	buf := gopacket.NewSerializeBuffer()
	must(gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ls...))
	return buf.Bytes()
}

func must(err error) {
	if err != nil {
		panic(err) // a mistake in a test, not a result of one
	}
}

// Ethernet returns a header between two fixed stations.
func Ethernet(t layers.EthernetType) *layers.Ethernet {
	return &layers.Ethernet{
		DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2}, EthernetType: t,
	}
}

// IPv4 returns a plain header for tests to change.
func IPv4(src, dst string, proto layers.IPProtocol) *layers.IPv4 {
	return &layers.IPv4{
		Version: 4, IHL: 5, TTL: 64, Protocol: proto,
		SrcIP: netip.MustParseAddr(src).AsSlice(), DstIP: netip.MustParseAddr(dst).AsSlice(),
	}
}

// IPv6 returns a plain header for tests to change.
func IPv6(src, dst string, next layers.IPProtocol) *layers.IPv6 {
	return &layers.IPv6{
		Version: 6, HopLimit: 64, NextHeader: next,
		SrcIP: netip.MustParseAddr(src).AsSlice(), DstIP: netip.MustParseAddr(dst).AsSlice(),
	}
}

// UDP4 returns an IPv4 UDP frame.
func UDP4(src, dst string, sport, dport uint16, payload ...byte) []byte {
	return Frame(Ethernet(layers.EthernetTypeIPv4), IPv4(src, dst, layers.IPProtocolUDP),
		&layers.UDP{SrcPort: layers.UDPPort(sport), DstPort: layers.UDPPort(dport)}, gopacket.Payload(payload))
}

// UDP6 returns an IPv6 UDP frame.
func UDP6(src, dst string, sport, dport uint16, payload ...byte) []byte {
	return Frame(Ethernet(layers.EthernetTypeIPv6), IPv6(src, dst, layers.IPProtocolUDP),
		&layers.UDP{SrcPort: layers.UDPPort(sport), DstPort: layers.UDPPort(dport)}, gopacket.Payload(payload))
}

// Raw4 returns an IPv4 frame with a protocol and the bytes behind the IP header.
func Raw4(src, dst string, proto byte, rest ...byte) []byte {
	return Frame(Ethernet(layers.EthernetTypeIPv4), IPv4(src, dst, layers.IPProtocol(proto)), gopacket.Payload(rest))
}

// Raw6 returns an IPv6 frame with a next header and the bytes behind the IP header.
func Raw6(src, dst string, next byte, rest ...byte) []byte {
	return Frame(Ethernet(layers.EthernetTypeIPv6), IPv6(src, dst, layers.IPProtocol(next)), gopacket.Payload(rest))
}
