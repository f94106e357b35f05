package differential

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// emitted is a frame from a router, with its side.
type emitted struct {
	side  int
	bytes string // without tags of VLANs and tunnels; normalised
	outer string // header of a tunnel
}

// outcome is all frames from a router by the packet that caused them, or untagged.
type outcome map[uint32]emissions

const untagged = 1<<32 - 1

// Outcome returns the received frames, sorted.
func (c *Contender) Outcome() outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := outcome{}
	for _, a := range c.received {
		id, ok := tagOf([]byte(a.bytes))
		if !ok {
			if linkNoise([]byte(a.bytes)) {
				continue
			}
			id = untagged
		}
		e := a.emitted
		e.bytes = normal([]byte(a.bytes))
		all[id] = append(all[id], e)
	}
	for _, o := range all {
		slices.SortFunc(o, compareOutputs)
	}
	return all
}

func compareOutputs(a, b emitted) int {
	if a.side != b.side {
		return a.side - b.side
	}
	return cmp.Or(strings.Compare(a.bytes, b.bytes), strings.Compare(a.outer, b.outer))
}

// linkNoise reports whether a frame is Linux's own: neighbor discovery, multicast reports or LACP.
func linkNoise(f []byte) bool {
	switch binary.BigEndian.Uint16(f[12:]) {
	case 0x0806:
		return f[14+7] == 1
	case 0x8809:
		return true
	case 0x86dd:
		return len(f) > 14+40 && (f[14+6] == 0 || f[14+6] == 58 && f[14+40] >= 130)
	}
	return false
}

// normal returns a frame without the fields that may differ: the identification of the router's own
// IPv4 packets, and their checksum, which must be correct.
func normal(f []byte) string {
	f = slices.Clone(f)
	b := f[14:]
	if binary.BigEndian.Uint16(f[12:]) != 0x0800 || len(b) < 20 || b[0]>>4 != 4 || len(b) < int(b[0]&15)*4 {
		return string(f)
	}
	for i := range sides {
		if [4]byte(b[12:16]) == side4(i, 1).As4() && ipv4SumOK(b) {
			b[4], b[5], b[10], b[11] = 0, 0, 0, 0
		}
	}
	return string(f)
}

func ipv4SumOK(b []byte) bool {
	old := [2]byte(b[10:])
	fixed := slices.Clone(b[:b[0]&15*4])
	fix4(fixed)
	return [2]byte(fixed[10:]) == old
}

// kinds names frames in a word each.
func kinds(all []emitted) (names []string) {
	for i, o := range all {
		if i == 8 {
			return append(names, "...")
		}
		names = append(names, kind(o)+" by "+sides[o.side])
	}
	return names
}

// kind names a frame: the router's ICMP errors by type and code, others by family.
func kind(o emitted) string {
	b := []byte(o.bytes)[14:]
	switch etherType := binary.BigEndian.Uint16([]byte(o.bytes)[12:]); {
	case etherType == 0x0800 && len(b) > 21 && b[9] == 1 && b[0] == 0x45 && b[12] == 10 && b[15] == 1 && b[20] != 0:
		return fmt.Sprintf("ICMP %d/%d", b[20], b[21])
	case etherType == 0x86dd && len(b) > 41 && b[6] == 58 && (b[8] == 0xfd && b[23] == 1 || b[8] == 0xfe) && b[40] != 129:
		return fmt.Sprintf("ICMPv6 %d/%d", b[40], b[41])
	case etherType == 0x0800:
		return "IPv4"
	case etherType == 0x86dd:
		return "IPv6"
	}
	return "frame"
}

// onlyIn returns the elements that a has more often than b; both are sorted.
func onlyIn(a, b []emitted) (rest []emitted) {
	b = slices.Clone(b)
	for _, o := range a {
		if i := slices.Index(b, o); i >= 0 {
			b = slices.Delete(b, i, i+1)
		} else {
			rest = append(rest, o)
		}
	}
	return rest
}

// hex returns the first bytes of a frame.
func hex(frame string) string {
	if len(frame) > 128 {
		return fmt.Sprintf("% x ... (%d bytes)", frame[:128], len(frame))
	}
	return fmt.Sprintf("% x", frame)
}

// texts prints frames for a failure.
func texts(all []emitted) string {
	var s []string
	for i, o := range all {
		if i == 5 {
			s = append(s, fmt.Sprintf("and %d more", len(all)-i))
			break
		}
		s = append(s, fmt.Sprintf("by %s %s", sides[o.side], hex(o.bytes)))
	}
	return "[" + strings.Join(s, "\n           ") + "]"
}
