// Package differential sends the same random packets through Linux and through warproute, in equal networks,
// and compares all frames that leave. Ports says which kinds of interfaces the routers have.
package differential

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// Contest is a comparison of the routers by random packets.
type Contest struct {
	Program    string
	Ports      Ports
	Packets    int
	Forwarding bool // Linux forwards punted packets
}

// window returns the number of packets in flight. Workers bound the time of packets through Linux.
func (p *Ports) window() int {
	if p.exits {
		return 20
	}
	return 200
}

// Run sends the packets and compares the frames from both routers.
func (o Contest) Run(t *testing.T) *Verdicts {
	t.Helper()
	linux := Linux(t, o.Ports)
	ours, router := Warproute(t, o.Program, o.Ports, o.Forwarding || o.Ports.exits)
	linux.await()
	ours.await()
	m := NewMaker(1812, 8200)
	if o.Forwarding || o.Ports.exits { // and Linux has the anycast addresses of routers
		m.own6 = append(slices.Clone(own6), "fd07::", "fd08::", "fd09::")
	}
	start := time.Now()
	probes := make(map[uint32]*Probe, o.Packets)
	for id := uint32(0); id < uint32(o.Packets); {
		side := pick(m, lanSide, lanSide, lanSide, wanSide, narSide)
		for range o.Ports.window() {
			p := m.next(id, side)
			probes[id] = p
			for _, c := range []*Contender{linux, ours} {
				if backups := c.sides[side].backups; id%16 == 0 && len(backups) > 0 {
					c.send(side, backups, p.frame)
				} else {
					c.Send(side, p.frame)
				}
			}
			id++
		}
		linux.Settle(side)
		ours.Settle(side)
	}
	took := time.Since(start)
	if linux.bonds[wanSide].mode != "" {
		sendFlows(probes, linux, ours)
	}
	time.Sleep(100 * time.Millisecond) // for late frames
	if n := linux.lost() + ours.lost(); n > 0 {
		t.Fatalf("the test's sockets lost %d frames", n)
	}
	if n := router.Drops("tx_full"); n > 0 {
		t.Fatalf("the router's transmit rings lost %d frames", n)
	}
	v := compare(probes, linux.Outcome(), ours.Outcome(), slices.Concat(o.Ports.Differences, differences))
	if linux.bonds[wanSide].mode != "" {
		linux.checkMembers()
		ours.checkMembers()
		ours.checkFlows()
	}
	o.report(t, v, probes, took)
	return v
}

// report logs the verdicts, and fails the test for differences that nothing explains.
func (o Contest) report(t *testing.T, v *Verdicts, probes map[uint32]*Probe, took time.Duration) {
	t.Helper()
	t.Logf("%s: %d packets of %d had the same outcome; %d caused frames; %.1f s", o.Ports.Name, v.same, len(probes), v.Alive, took.Seconds())
	for _, d := range slices.Concat(o.Ports.Differences, differences) {
		if n := v.Explained[d.Name]; n > 0 {
			t.Logf("%6d differ: %s (CONFORMANCE.md %s)", n, d.Name, d.Rule)
		}
	}
	if v.Alive < o.Packets/2 {
		t.Errorf("too few packets caused frames: %d of %d", v.Alive, o.Packets)
	}
	for _, d := range o.Ports.Differences {
		if v.Explained[d.Name] == 0 && !d.Rare {
			t.Errorf("no packet shows the difference %q: fix the list or the traffic", d.Name)
		}
	}
	v.Report(t)
}

// Verdicts are the results of a comparison.
type Verdicts struct {
	Explained   map[string]int // by the name of the difference
	Alive       int            // packets that caused frames
	same        int            // packets with the same outcome
	unexplained map[string]int // by the kinds of frames
	first       map[string]string
}

// Report fails the test for differences that nothing explains.
func (v *Verdicts) Report(t *testing.T) {
	t.Helper()
	for _, kind := range slices.Sorted(maps.Keys(v.unexplained)) {
		t.Errorf("%d packets: %s. The first one:\n%s", v.unexplained[kind], kind, v.first[kind])
	}
}

// Compare compares the outcomes of packets by the common differences.
func Compare(probes map[uint32]*Probe, linux, ours *Contender) *Verdicts {
	return compare(probes, linux.Outcome(), ours.Outcome(), differences)
}

func compare(probes map[uint32]*Probe, linux, ours outcome, known []Difference) *Verdicts {
	v := &Verdicts{Explained: map[string]int{}, unexplained: map[string]int{}, first: map[string]string{}}
	for _, id := range slices.Sorted(maps.Keys(probes)) {
		p := probes[id]
		if len(ours[id]) > 0 || len(linux[id]) > 0 {
			v.Alive++
		}
		if slices.Equal(linux[id], ours[id]) {
			v.same++
			continue
		}
		c := newContrast(p, linux[id], ours[id])
		v.adjust(c, known)
		if slices.Equal(c.linux, c.ours) {
			continue
		}
		if i := slices.IndexFunc(known, func(d Difference) bool { return d.adjust == nil && d.is(c) }); i >= 0 {
			v.Explained[known[i].Name]++
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

// adjust removes the differences from Linux's frames that may be combined with others.
func (v *Verdicts) adjust(c *contrast, known []Difference) {
	for _, d := range known {
		if d.adjust == nil {
			continue
		}
		if adjusted := d.adjust(c); !slices.Equal(adjusted, c.linux) {
			slices.SortFunc(adjusted, compareOutputs)
			c.linux = adjusted
			v.Explained[d.Name]++
		}
	}
}

// blame counts an unexplained difference.
func (v *Verdicts) blame(kind, text string) {
	if v.unexplained[kind]++; v.unexplained[kind] == 1 {
		v.first[kind] = text
	}
}

// contrast is a packet that two routers treated differently.
type contrast struct {
	*Probe           // without its priority tag
	priority    bool // it had a priority tag
	linux, ours emissions
}

func newContrast(p *Probe, linux, ours emissions) *contrast {
	c := &contrast{Probe: p, linux: linux, ours: ours}
	if f := p.frame; binary.BigEndian.Uint16(f[12:]) == 0x8100 && len(f) >= 18 && binary.BigEndian.Uint16(f[14:])&0xfff == 0 {
		untagged := *p
		untagged.frame = slices.Concat(f[:12], f[16:])
		c.Probe, c.priority = &untagged, true
	}
	return c
}

func (c *contrast) String() string {
	return fmt.Sprintf("from %s %s\n Linux     %s\n warproute %s", sides[c.side], hex(string(c.frame)), texts(c.linux), texts(c.ours))
}
