package gpu

import (
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/suite"
	"github.com/warproute/warproute/umem"
)

// cbcTraffic is packets to be sealed by CBC, in runs that a device has at once, among others.
type cbcTraffic struct {
	*securedTwins
	tunnels []int
	long    []int // by tunnel: the length of its next payload
	step    int   // between these
	tunnel  int   // of the run, in tunnels; and how many packets are left of it
	left    int
	short   int // the longest payload of the run, if it is of short ones
}

const longestCBC = 1480 // more than any packet that fits a port of 1500

func newCBCTraffic(w *securedTwins) *cbcTraffic {
	c := &cbcTraffic{securedTwins: w, step: 8}
	if testing.Short() {
		c.step = 8 * 5
	}
	for k, a := range w.all[:len(w.all)-2] {
		if a.suite.Cipher == suite.CBC && a.Mode == ipsec.Tunnel {
			c.tunnels = append(c.tunnels, k)
			c.long = append(c.long, len(c.long)%8) // a suite has 8 tunnels: they have every length together
		}
	}
	return c
}

// next is most often a packet of a run: of one tunnel, as its key fits the stage once, with
// long ones in turn or with short ones; or now and then one of another tunnel, of
// another suite, or to be opened.
func (c *cbcTraffic) next() []byte {
	if c.left == 0 {
		c.tunnel, c.left, c.short = (c.tunnel+1)%len(c.tunnels), 1+c.rnd.IntN(2*quadFrames), 0
		if c.rnd.IntN(2) == 0 {
			c.short = 1 + c.rnd.IntN(100)
		}
	}
	c.left--
	i := c.tunnel
	switch c.rnd.IntN(24) {
	case 0:
		return c.securedTwins.next()
	case 1:
		return c.inbound(c.tunnels[c.rnd.IntN(len(c.tunnels))])
	case 2, 3:
		i = c.rnd.IntN(len(c.tunnels))
	}
	n := c.rnd.IntN(max(c.short, 1))
	if c.short == 0 {
		n = c.long[i]
		c.long[i] += c.step
	}
	return testutil.UDP4("192.0.2.1", "10.1.0.1", 9, uint16(outPort+c.tunnels[i]), randomBytes(c.rnd, n%longestCBC)...)
}

func (c *cbcTraffic) hadAllLengths() bool {
	for _, n := range c.long {
		if n < longestCBC {
			return false
		}
	}
	return true
}

// agreeOnCBC has packets of every length sealed by every suite with CBC.
func agreeOnCBC(t *testing.T, maker securedMaker) {
	w := newSecuredTwins(t, maker, 6)
	w.net.SetPort(1, 0x020000000011, umem.MaxMTU)
	w.net.Bump()
	c := newCBCTraffic(w)
	for !c.hadAllLengths() {
		w.run(c.next)
	}
	if forwarded := w.seen[batch.Forward(0)]; w.swapped > forwarded/100 {
		t.Errorf("%d of %d packets were sealed out of turn, that is not seldom", w.swapped, forwarded)
	}
}

// Four lanes seal a packet by CBC, up to a quad of packets of any lengths at once.
func TestGatewayCodeSealsByCBC(t *testing.T) { agreeOnCBC(t, securedOnHost(3900)) }
