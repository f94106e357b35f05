package gpu

import (
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/suite"
	"github.com/warproute/warproute/umem"
)

// cbcTraffic generates packets to seal by CBC, in runs that one batch seals, and others.
type cbcTraffic struct {
	*securedTwins
	tunnels []int
	long    []int // by tunnel: length of the next payload
	step    int   // range of lengths
	tunnel  int   // tunnel of the run, and its remaining packets
	left    int
	short   int // longest payload of a run of short packets
}

const longestCBC = 1480 // more than an MTU of 1,500 bytes

func newCBCTraffic(w *securedTwins) *cbcTraffic {
	c := &cbcTraffic{securedTwins: w, step: 8}
	if testing.Short() {
		c.step = 8 * 5
	}
	for k, a := range w.all[:len(w.all)-2] {
		if a.suite.Cipher == suite.CBC && a.Mode == ipsec.Tunnel {
			c.tunnels = append(c.tunnels, k)
			c.long = append(c.long, len(c.long)%8) // the 8 tunnels of a suite have every length together
		}
	}
	return c
}

// next usually returns a packet of a run: of one tunnel, as the staging buffer has room for one key,
// short or alternating with long ones. Rarely it returns a packet of another tunnel or suite, or one to
// open.
func (c *cbcTraffic) next() []byte {
	if c.left == 0 {
		c.tunnel, c.left, c.short = (c.tunnel+1)%len(c.tunnels), 1+c.rnd.IntN(2*batchFrames), 0
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

// agreeOnCBC seals packets of every length by every CBC suite.
func agreeOnCBC(t *testing.T, maker securedMaker) {
	w := newSecuredTwins(t, maker, 6)
	w.net.SetPort(1, 0x020000000011, umem.MaxMTU)
	w.net.Commit()
	c := newCBCTraffic(w)
	for !c.hadAllLengths() {
		w.run(c.next)
	}
	if forwarded := w.seen[batch.Forward(0)]; w.swapped > forwarded/100 {
		t.Errorf("%d of %d packets were sealed in another order: too many", w.swapped, forwarded)
	}
}

func TestGatewayCodeSealsByCBC(t *testing.T) { agreeOnCBC(t, securedOnHost(3900)) }
