// Package lane sorts received packets into lanes by their headers.
//
// A lane is a class of packets with a deadline, and a share of each GPU that serves it first. Workers keep
// the packets of a lane in order, and complete each lane without waiting for the others. The lane of a packet
// decides when it is processed, and nothing else: whether it is protected is decided later, by the policies.
package lane

import (
	"fmt"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
)

// Lane is one lane. Packets enter the first lane that they match; the last one takes the others.
type Lane struct {
	Name     string
	Deadline time.Duration // from a packet's arrival to its transmission; 0 for none
	Share    int           // percent of each GPU that serves the lane first
	Match    []Match       // a packet matches if it matches one of them
}

// Match is a condition on the headers of a received packet. Its parts must all hold.
type Match struct {
	DSCP               uint64          // set of code points, a bit each; 0 for any
	Protocol           packet.Protocol // IP protocol, behind the extension headers of IPv6
	AnyProtocol        bool            // Protocol has no meaning
	SrcPorts, DstPorts Range           // of whole packets of TCP, UDP, DCCP, SCTP and UDP-Lite
	Plain              bool            // only packets that IPsec neither decrypts nor encrypts
}

// Range is a range of ports, both ends included. The zero Range is any.
type Range struct{ First, Last uint16 }

func (r Range) any() bool              { return r == Range{} || r == Range{0, 1<<16 - 1} }
func (r Range) contains(p uint16) bool { return r.any() || r.First <= p && p <= r.Last }

// maxMatches is the largest number of conditions of all lanes.
const maxMatches = 64

// Lanes are compiled lanes.
type Lanes struct {
	all     []Lane
	gateway *gateway.Gateway // nil: no IPsec
	fib     *fib.FIB         // see RouteBy

	// Sets of matches, a bit each in the order of the lanes.
	byProtocol [256]uint64 // those that a protocol does not exclude
	byDSCP     [64]uint64  // those that a DSCP does not exclude
	plainOnly  uint64      // those with Plain
	plainAlone bool        // the only match is Plain without other conditions
	withPorts  uint64      // those with ports
	matches    []ports
	lanes      [maxMatches + 1]uint8 // by match; the last one for no match
}

// ports are the ports of a match.
type ports struct{ src, dst Range }

// Default returns the lanes of an IPsec gateway: express for all packets that IPsec leaves alone, and bulk for
// the packets of tunnels. Packets of an SA stay in one lane whatever their DSCP: those that overtook others
// would move the receiver's replay window past them (RFC 4301 section 4.1).
func Default() []Lane {
	return []Lane{
		{Name: "express", Deadline: 100 * time.Microsecond, Share: 20, Match: []Match{{AnyProtocol: true, Plain: true}}},
		{Name: "bulk", Deadline: time.Millisecond, Share: 80},
	}
}

// Compile checks lanes and prepares them for classification. g has the outbound policies; nil without IPsec.
func Compile(lanes []Lane, g *gateway.Gateway) (*Lanes, error) {
	if len(lanes) < 1 || len(lanes) > batch.MaxLanes {
		return nil, fmt.Errorf("compile %d lanes: 1 to %d are possible", len(lanes), batch.MaxLanes)
	}
	c := &Lanes{all: lanes, gateway: g}
	c.lanes[maxMatches] = uint8(len(lanes) - 1)
	for i, l := range lanes {
		if last := i == len(lanes)-1; last != (len(l.Match) == 0) {
			return nil, fmt.Errorf("compile lane %q: the last lane takes the packets that match no other, and each other lane needs a match", l.Name)
		}
		for _, m := range l.Match {
			if len(c.matches) == maxMatches {
				return nil, fmt.Errorf("compile lane %q: all lanes have more than %d matches", l.Name, maxMatches)
			}
			c.add(m, uint8(i))
		}
	}
	if len(lanes) == 2 && len(lanes[0].Match) == 1 {
		m := lanes[0].Match[0]
		c.plainAlone = m.Plain && m.AnyProtocol && m.DSCP == 0 && c.withPorts == 0
	}
	return c, nil
}

func (c *Lanes) add(m Match, lane uint8) {
	bit := uint64(1) << len(c.matches)
	for p := range c.byProtocol {
		if m.AnyProtocol || packet.Protocol(p) == m.Protocol {
			c.byProtocol[p] |= bit
		}
	}
	for d := range c.byDSCP {
		if m.DSCP == 0 || m.DSCP>>d&1 != 0 {
			c.byDSCP[d] |= bit
		}
	}
	if m.Plain {
		c.plainOnly |= bit
	}
	if !m.SrcPorts.any() || !m.DstPorts.any() {
		c.withPorts |= bit
	}
	c.lanes[len(c.matches)] = lane
	c.matches = append(c.matches, ports{m.SrcPorts, m.DstPorts})
}

// All returns the lanes, in their order.
func (c *Lanes) All() []Lane { return c.all }
