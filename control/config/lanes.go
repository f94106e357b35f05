package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Lane is a class of packets with a deadline, and a share of each GPU. Packets enter the first lane that they
// match.
type Lane struct {
	Name     string
	Match    []LaneMatch   // alternatives; none in the last lane, which takes the other packets
	Deadline time.Duration // from the arrival of a packet to its transmission; later ones are counted
	Share    int           // percent of each GPU that serves this lane first
}

// LaneMatch is a condition on the headers of a received packet. All its parts must hold.
type LaneMatch struct {
	DSCP               []int // code points; none for any
	Protocol           uint8 // IP protocol; 0 is any
	SrcPorts, DstPorts PortRange
	Plain              bool // only packets that IPsec neither decrypts nor encrypts
}

// Limits of lanes.
const (
	maxLanes        = 4
	maxLaneMatches  = 64 // of all lanes
	maxDSCP         = 63
	minLaneDeadline = 10 * time.Microsecond
	maxLaneDeadline = time.Second
)

// Defaults of lanes.
const (
	expressDeadline = 100 * time.Microsecond
	bulkDeadline    = time.Millisecond
)

// ActiveLanes returns the configured lanes. Without any, an IPsec gateway has two: express for packets that
// IPsec leaves alone, and bulk for those of tunnels. Another router then has no lanes (nil): it does not look at
// packets to sort them.
func (c *Config) ActiveLanes() []Lane {
	switch {
	case len(c.Lanes) > 0:
		return c.Lanes
	case c.Protects():
		return []Lane{
			{Name: "express", Match: []LaneMatch{{SrcPorts: AnyPort, DstPorts: AnyPort, Plain: true}}, Deadline: expressDeadline, Share: 20},
			{Name: "bulk", Deadline: bulkDeadline, Share: 80},
		}
	}
	return nil
}

// lanes returns the reader of the list of lanes.
func (r *reader) lanes() value {
	c := r.config
	return list(func(int) value {
		c.Lanes = append(c.Lanes, Lane{Deadline: bulkDeadline})
		l := &c.Lanes[len(c.Lanes)-1]
		return mapping(
			field{"name", text(&l.Name)},
			field{"match", list(func(int) value {
				l.Match = append(l.Match, LaneMatch{SrcPorts: AnyPort, DstPorts: AnyPort})
				m := &l.Match[len(l.Match)-1]
				return mapping(
					field{"dscp", list(func(int) value {
						m.DSCP = append(m.DSCP, 0)
						return integer(&m.DSCP[len(m.DSCP)-1], "46")
					})},
					field{"protocol", protocol(&m.Protocol)},
					field{"sport", ports(&m.SrcPorts)},
					field{"dport", ports(&m.DstPorts)},
					field{"plain", boolean(&m.Plain)},
				)
			})},
			field{"deadline", duration(&l.Deadline)},
			field{"share", integer(&l.Share, "20")},
		)
	})
}

func (c *Config) checkLanes() (errs Errors) {
	if len(c.Lanes) > maxLanes {
		errs = append(errs, c.fault("lanes", fmt.Sprintf("lanes: %d exceed the limit of %d", len(c.Lanes), maxLanes), "combine some of them"))
	}
	matches, share, names := 0, 0, map[string]bool{}
	for i := range c.Lanes {
		l, e := &c.Lanes[i], &entry{config: c, key: fmt.Sprintf("lanes[%d]", i)}
		e.checkName(l.Name)
		if names[l.Name] {
			e.fail("name", fmt.Sprintf("duplicate of %q", l.Name), "choose a unique name for each lane")
		}
		names[l.Name] = true
		switch last := i == len(c.Lanes)-1; {
		case last && len(l.Match) > 0:
			e.fail("match", "the last lane takes the packets that match no other", "remove the key, or add a lane without it")
		case !last && len(l.Match) == 0:
			e.missing("match", "add one such as `match: [{plain: true}]`, or make this the last lane, which takes all other packets")
		}
		if l.Deadline < minLaneDeadline || l.Deadline > maxLaneDeadline {
			e.fail("deadline", fmt.Sprintf("%v is out of range", l.Deadline), fmt.Sprintf("write a duration from %v to %v", minLaneDeadline, maxLaneDeadline))
		}
		if share += max(l.Share, 0); l.Share < 0 || share > 100 {
			e.fail("share", fmt.Sprintf("%d: the shares of all lanes are %d percent", l.Share, share), "write percentages whose sum is 100 at most, or 0 for no share")
		}
		for j := range l.Match {
			l.Match[j].check(e, fmt.Sprintf("match[%d]", j))
		}
		if matches += len(l.Match); matches > maxLaneMatches {
			e.fail("match", fmt.Sprintf("the lanes have more than %d matches", maxLaneMatches), "combine some, as in `dscp: [46, 48]` and `dport: 3784-3785`")
		}
		errs = append(errs, e.errs...)
	}
	return errs
}

// check checks a condition, the field of an entry.
func (m *LaneMatch) check(e *entry, field string) {
	for i, d := range m.DSCP {
		if d < 0 || d > maxDSCP {
			e.fail(fmt.Sprintf("%s.dscp[%d]", field, i), fmt.Sprintf("%d is not a DSCP", d), fmt.Sprintf("write a number from 0 to %d, such as 46 (EF)", maxDSCP))
		}
	}
	withPorts := slices.ContainsFunc(lanePorts, func(p uint8) bool { return p == m.Protocol })
	for _, x := range []struct {
		field string
		ports PortRange
	}{{"sport", m.SrcPorts}, {"dport", m.DstPorts}} {
		switch {
		case x.ports.First > x.ports.Last:
			e.fail(field+"."+x.field, fmt.Sprintf("%d-%d ends before it begins", x.ports.First, x.ports.Last), "write the lower port first")
		case x.ports != AnyPort && !withPorts:
			e.fail(field+"."+x.field, "ports need a protocol with ports", "add `protocol:` with tcp, udp, dccp, sctp or udplite, or write any")
		}
	}
}

// lanePorts are the protocols whose ports lanes can match.
var lanePorts = []uint8{6, 17, 33, 132, 136}

// lanesText returns the settings of lanes.
func lanesText(lanes []Lane) string {
	if len(lanes) == 0 {
		return "default"
	}
	var all []string
	for _, l := range lanes {
		s := fmt.Sprintf("%s %v %d%%", l.Name, l.Deadline, l.Share)
		for i, m := range l.Match {
			s += []string{" for", " or"}[min(i, 1)]
			s += m.text()
		}
		all = append(all, s)
	}
	return strings.Join(all, ", ")
}

func (m *LaneMatch) text() (s string) {
	if len(m.DSCP) > 0 {
		s += " dscp " + strings.Trim(fmt.Sprint(m.DSCP), "[]")
	}
	if m.Protocol != 0 {
		s += fmt.Sprintf(" protocol %d", m.Protocol)
	}
	if p := m.SrcPorts.text(); p != "" {
		s += " from" + p
	}
	if p := m.DstPorts.text(); p != "" {
		s += " to" + p
	}
	if m.Plain {
		s += " plain"
	}
	if s == "" {
		s = " all"
	}
	return s
}
