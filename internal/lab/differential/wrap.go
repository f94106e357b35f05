package differential

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/warproute/warproute/internal/testutil"
)

// tag is a VLAN tag.
type tag struct{ protocol, id uint16 }

func itoa(n uint16) string { return strconv.Itoa(int(n)) }

// addTags returns a frame with tags before its type.
func addTags(frame []byte, tags []tag) []byte {
	out := slices.Clone(frame[:12])
	for _, t := range tags {
		out = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(out, t.protocol), t.id)
	}
	return append(out, frame[12:]...)
}

// removeTags returns a frame without its tags; ok is false if they are others.
func removeTags(frame []byte, tags []tag) (inner []byte, ok bool) {
	rest := frame[12:]
	for _, t := range tags {
		if len(rest) < 6 || binary.BigEndian.Uint16(rest) != t.protocol || binary.BigEndian.Uint16(rest[2:]) != t.id {
			return nil, false
		}
		rest = rest[4:]
	}
	return append(slices.Clone(frame[:12]), rest...), true
}

// The tunnel ends at 192.0.2.1, the router, and 192.0.2.2, on the link of number underlay.
var tunnel4 = [2][]byte{{192, 0, 2, 1}, {192, 0, 2, 2}}

// encapsulate returns a packet in an IPv4 packet from hosts to the router.
func encapsulate(proto byte, header, packet []byte) []byte {
	h := []byte{0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, proto, 0, 0}
	h = append(append(h, tunnel4[1]...), tunnel4[0]...)
	binary.BigEndian.PutUint16(h[2:], uint16(20+len(header)+len(packet)))
	binary.BigEndian.PutUint16(h[10:], ^testutil.Sum(h))
	frame := append(slices.Clone(routerMAC(underlay)), hostMAC(underlay)...)
	return slices.Concat(frame, []byte{8, 0}, h, header, packet)
}

// decapsulate returns the payload of an IPv4 packet from the router, and a description of its header.
func decapsulate(proto byte, frame []byte) (payload []byte, outer string, ok bool) {
	if len(frame) < 14+20 || binary.BigEndian.Uint16(frame[12:]) != 0x0800 {
		return nil, "", false
	}
	b := frame[14:]
	size := int(binary.BigEndian.Uint16(b[2:]))
	if b[0] != 0x45 || b[9] != proto || !slices.Equal(b[12:16], tunnel4[0]) || !slices.Equal(b[16:20], tunnel4[1]) || size < 20 || size > len(b) || !ipv4SumOK(b) ||
		!slices.Equal(frame[:12], slices.Concat(hostMAC(underlay), routerMAC(underlay))) {
		return nil, "", false
	}
	return b[20:size], fmt.Sprintf("TOS %#x flags %#x TTL %d", b[1], b[6], b[8]), true
}

// wrapGRE returns the packet of a frame in GRE.
func wrapGRE(frame []byte) []byte {
	return encapsulate(47, append([]byte{0, 0}, frame[12:14]...), frame[14:])
}

// unwrapGRE returns the packet of GRE from the router as a frame.
func unwrapGRE(frame []byte) (inner []byte, outer string, ok bool) {
	b, outer, ok := decapsulate(47, frame)
	if !ok || len(b) < 4 || b[0] != 0 || b[1] != 0 {
		return nil, "", false
	}
	return slices.Concat(hostMAC(wanSide), routerMAC(wanSide), b[2:]), outer, true
}

const vxlanID, vxlanPort = 5, 4789

// wrapVXLAN returns a frame in VXLAN.
func wrapVXLAN(frame []byte) []byte {
	h := []byte{0xc0, 0, vxlanPort >> 8, vxlanPort & 0xff, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, vxlanID, 0}
	binary.BigEndian.PutUint16(h[4:], uint16(len(h)+len(frame)))
	return encapsulate(17, h, frame)
}

// unwrapVXLAN returns the frame of VXLAN from the router. Its source port, a hash of the flow, and its checksum are not compared.
func unwrapVXLAN(frame []byte) (inner []byte, outer string, ok bool) {
	b, outer, ok := decapsulate(17, frame)
	if !ok || len(b) < 8+8+14 || binary.BigEndian.Uint16(b[2:]) != vxlanPort || int(binary.BigEndian.Uint16(b[4:])) != len(b) ||
		!slices.Equal(b[8:16], []byte{8, 0, 0, 0, 0, 0, vxlanID, 0}) {
		return nil, "", false
	}
	return b[16:], outer, true
}
