package e2e

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/conformance"
)

// Whatever the packet, warproute does what Linux does in its place: the same packets
// leave by the same sides, byte for byte, ICMP errors and their quotes and the answers of
// the router's host included. Where it does not, differences has the reason.
func TestLinuxDoesTheSame(t *testing.T) {
	v := contest(t, 100_000, false)
	rules := conformance.Rules()
	for _, d := range differences {
		if !slices.ContainsFunc(rules, func(r conformance.Rule) bool { return r.Key == d.rule }) {
			t.Errorf("no rule is %q, by which %q is explained", d.rule, d.name)
		}
		if v.explained[d.name] == 0 {
			t.Errorf("no packet shows the difference %q: mend the list, or the traffic", d.name)
		}
	}
}

// What warproute leaves to Linux is done by Linux, where that may forward.
func TestLinuxForwardsWhatIsLeftToIt(t *testing.T) {
	v := contest(t, 20_000, true)
	for _, d := range differences {
		if d.linuxs && v.explained[d.name] > 0 {
			t.Errorf("%d packets show the difference %q, though Linux forwards beside the router", v.explained[d.name], d.name)
		}
	}
}

// contest has Linux and warproute, in whose namespace Linux may forward or not, route the
// same packets, and compares all that comes of them.
func contest(t *testing.T, packets int, forwarding bool) *verdicts {
	t.Helper()
	linux := linuxContender(t)
	ours, router := warprouteContender(t, forwarding)
	m := maker{rand.New(rand.NewPCG(1812, 8200)), own6}
	if forwarding { // and Linux has the anycast addresses of routers
		m.own6 = append(slices.Clone(own6), "fd07::", "fd08::", "fd09::")
	}
	probes := make(map[uint32]*probe, packets)
	marks := [2]uint32{firstMark, firstMark}
	const window = 200
	for id := uint32(0); id < uint32(packets); {
		side := pick(m, lanSide, lanSide, lanSide, wanSide, narSide)
		for range window {
			p := m.next(id, side)
			probes[id] = p
			linux.send(side, p.frame)
			ours.send(side, p.frame)
			id++
		}
		linux.settle(side, &marks[0])
		ours.settle(side, &marks[1])
	}
	time.Sleep(100 * time.Millisecond) // for what comes after all
	if n := linux.lost() + ours.lost(); n > 0 {
		t.Fatalf("the test's sockets lost %d frames", n)
	}
	if n := router.drops("tx_full"); n > 0 {
		t.Fatalf("the router's transmit rings lost %d frames", n)
	}
	v := compare(probes, linux.outcome(), ours.outcome())
	t.Logf("%d packets of %d had the same outcome, %d of them with something coming out", v.same, packets, v.alive)
	for _, d := range differences {
		if n := v.explained[d.name]; n > 0 {
			t.Logf("%6d differ: %s (CONFORMANCE.md %s)", n, d.name, d.rule)
		}
	}
	if v.alive < packets/2 {
		t.Errorf("too few packets came out to compare anything: %d of %d", v.alive, packets)
	}
	for _, kind := range slices.Sorted(maps.Keys(v.unexplained)) {
		t.Errorf("%d packets: %s. The first one:\n%s", v.unexplained[kind], kind, v.first[kind])
	}
	return v
}

// emitted is a frame that left a router, by a side.
type emitted struct {
	side  int
	bytes string // normalised
}

// outcome is all that left a router, by the packet that it is of; what is of none is of
// untagged.
type outcome map[uint32]emissions

const untagged = 1<<32 - 1

// outcome returns what arrived, in an order of its own.
func (c *contender) outcome() outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := outcome{}
	for _, a := range c.received {
		id, is := tagOf(a.frame)
		if !is {
			if linkNoise(a.frame) {
				continue
			}
			id = untagged
		}
		all[id] = append(all[id], emitted{a.side, normal(a.frame)})
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
	return strings.Compare(a.bytes, b.bytes)
}

// linkNoise reports whether a frame is Linux's own business with its links: questions for
// neighbours, and what it tells of its groups.
func linkNoise(f []byte) bool {
	switch binary.BigEndian.Uint16(f[12:]) {
	case 0x0806:
		return f[14+7] == 1
	case 0x86dd:
		return len(f) > 14+40 && (f[14+6] == 0 || f[14+6] == 58 && f[14+40] >= 130)
	}
	return false
}

// normal is a frame without what may differ by right: the identification of IPv4 packets
// that the router itself sends, and with it their checksum, which must be right.
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
	mended := slices.Clone(b[:b[0]&15*4])
	mend4(mended)
	return [2]byte(mended[10:]) == old
}

// verdicts are what a comparison says.
type verdicts struct {
	same, alive int            // packets with the same outcome; with any
	explained   map[string]int // by the name of the difference
	unexplained map[string]int // by the kinds of what came out
	first       map[string]string
}

func compare(probes map[uint32]*probe, linux, ours outcome) *verdicts {
	v := &verdicts{explained: map[string]int{}, unexplained: map[string]int{}, first: map[string]string{}}
	for _, id := range slices.Sorted(maps.Keys(probes)) {
		p := probes[id]
		if len(ours[id]) > 0 || len(linux[id]) > 0 {
			v.alive++
		}
		if slices.Equal(linux[id], ours[id]) {
			v.same++
			continue
		}
		c := &contrast{probe: p, linux: linux[id], ours: ours[id]}
		if i := slices.IndexFunc(differences, func(d difference) bool { return d.is(c) }); i >= 0 {
			v.explained[differences[i].name]++
		} else {
			v.blame(fmt.Sprintf("Linux %v, warproute %v", kinds(c.linux), kinds(c.ours)), c.String())
		}
	}
	if !slices.Equal(linux[untagged], ours[untagged]) {
		a, b := onlyIn(linux[untagged], ours[untagged]), onlyIn(ours[untagged], linux[untagged])
		v.blame(fmt.Sprintf("of no packet in particular: Linux %v, warproute %v", kinds(a), kinds(b)), "Linux "+texts(a)+"\n warproute "+texts(b))
	}
	return v
}

// blame counts what is not explained.
func (v *verdicts) blame(kind, text string) {
	if v.unexplained[kind]++; v.unexplained[kind] == 1 {
		v.first[kind] = text
	}
}

// kinds names frames that left a router, in a word each.
func kinds(all []emitted) (names []string) {
	for i, o := range all {
		if i == 8 {
			return append(names, "...")
		}
		names = append(names, kind(o)+" by "+sides[o.side])
	}
	return names
}

// kind names a frame: an ICMP error of the router's by type and code, others by family.
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

// onlyIn returns what is in a more often than in b; both are sorted.
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

// contrast is a packet of which two routers made different things.
type contrast struct {
	*probe
	linux, ours emissions
}

func (c *contrast) String() string {
	return fmt.Sprintf("from %s %s\n Linux     %s\n warproute %s", sides[c.side], hex(string(c.frame)), texts(c.linux), texts(c.ours))
}

// hex is the beginning of a frame.
func hex(frame string) string {
	if len(frame) > 128 {
		return fmt.Sprintf("% x ... (%d bytes)", frame[:128], len(frame))
	}
	return fmt.Sprintf("% x", frame)
}

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
