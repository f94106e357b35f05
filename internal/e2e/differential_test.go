package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/conformance"
)

// For any packet, warproute sends the same frames by the same sides as Linux, including ICMP errors with
// their quotes and replies of the router's host. differences lists the exceptions.
func TestForwardingEqualsLinux(t *testing.T) {
	v := contest(t, 100_000, false)
	rules := conformance.Rules()
	for _, d := range differences {
		if !slices.ContainsFunc(rules, func(r conformance.Rule) bool { return r.Key == d.rule }) {
			t.Errorf("no rule is %q, by which %q is explained", d.rule, d.name)
		}
		if v.explained[d.name] == 0 {
			t.Errorf("no packet shows the difference %q: fix the list or the traffic", d.name)
		}
	}
}

// Linux forwards punted packets if its forwarding is on.
func TestLinuxForwardsPuntedPackets(t *testing.T) {
	v := contest(t, 20_000, true)
	for _, d := range differences {
		if d.linuxs && v.explained[d.name] > 0 {
			t.Errorf("%d packets show the difference %q, though Linux forwards beside the router", v.explained[d.name], d.name)
		}
	}
}

// contest sends the same packets through Linux and warproute and compares the frames from both. Linux
// may forward punted packets if forwarding is set.
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
	time.Sleep(100 * time.Millisecond) // for late frames
	if n := linux.lost() + ours.lost(); n > 0 {
		t.Fatalf("the test's sockets lost %d frames", n)
	}
	if n := router.Drops("tx_full"); n > 0 {
		t.Fatalf("the router's transmit rings lost %d frames", n)
	}
	v := compare(probes, linux.outcome(), ours.outcome())
	t.Logf("%d packets of %d had the same outcome; %d caused frames", v.same, packets, v.alive)
	for _, d := range differences {
		if n := v.explained[d.name]; n > 0 {
			t.Logf("%6d differ: %s (CONFORMANCE.md %s)", n, d.name, d.rule)
		}
	}
	if v.alive < packets/2 {
		t.Errorf("too few packets caused frames: %d of %d", v.alive, packets)
	}
	for _, kind := range slices.Sorted(maps.Keys(v.unexplained)) {
		t.Errorf("%d packets: %s. The first one:\n%s", v.unexplained[kind], kind, v.first[kind])
	}
	return v
}

// verdicts are the results of a comparison.
type verdicts struct {
	same, alive int            // packets with the same outcome; with any
	explained   map[string]int // by the name of the difference
	unexplained map[string]int // by the kinds of frames
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

// blame counts an unexplained difference.
func (v *verdicts) blame(kind, text string) {
	if v.unexplained[kind]++; v.unexplained[kind] == 1 {
		v.first[kind] = text
	}
}

// contrast is a packet that two routers treated differently.
type contrast struct {
	*probe
	linux, ours emissions
}

func (c *contrast) String() string {
	return fmt.Sprintf("from %s %s\n Linux     %s\n warproute %s", sides[c.side], hex(string(c.frame)), texts(c.linux), texts(c.ours))
}
