package packet

import (
	"net/netip"
	"testing"

	"github.com/warproute/warproute/internal/testutil"
)

func hash4(dst string, sport, dport uint16, seed uint32) uint32 {
	return FlowHashIPv4(testutil.UDP4("10.0.0.1", dst, sport, dport)[EthernetLen:], seed)
}

func hash6(dst string, sport, dport uint16, seed uint32) uint32 {
	p := testutil.UDP6("fd00::1", dst, sport, dport)[EthernetLen:]
	return FlowHashIPv6(p, L4{Proto: UDP, Offset: IPv6Len}, seed)
}

func TestFlowHashDependsOnTheFlowAndTheSeed(t *testing.T) {
	for name, hash := range map[string]func(dst string, sport, dport uint16, seed uint32) uint32{"IPv4": hash4, "IPv6": hash6} {
		dst, other := "10.0.0.2", "10.0.0.3"
		if name == "IPv6" {
			dst, other = "fd00::2", "fd00::3"
		}
		h := hash(dst, 1, 2, 0)
		if hash(dst, 1, 2, 0) != h {
			t.Errorf("%s: the same flow hashes differently", name)
		}
		if hash(other, 1, 2, 0) == h || hash(dst, 3, 2, 0) == h || hash(dst, 1, 3, 0) == h || hash(dst, 1, 2, 1) == h {
			t.Errorf("%s: destination, ports or seed do not count", name)
		}
	}
}

// A second router with another seed spreads the flows of one path of the first over all its paths.
func TestRoutersInARowChooseIndependently(t *testing.T) {
	for name, hash := range map[string]func(dst string, sport, dport uint16, seed uint32) uint32{"IPv4": hash4, "IPv6": hash6} {
		dst := map[string]string{"IPv4": "10.0.0.2", "IPv6": "fd00::2"}[name]
		var first, second int
		for sport := range uint16(4000) {
			if hash(dst, sport, 53, 1)>>31 == 0 {
				first++
				second += int(hash(dst, sport, 53, 2) >> 31)
			}
		}
		if share := float64(second) / float64(first); share < 0.4 || share > 0.6 {
			t.Errorf("%s: of %d flows by the first router's first path, %v take the next router's second", name, first, share)
		}
	}
}

// A host may change a flow's label when it suspects its path (RFC 6438 section 4): the flow keeps its
// path, as with Linux's fib_multipath_hash_policy 1.
func TestFlowLabelsDoNotMoveFlows(t *testing.T) {
	p := testutil.UDP6("fd00::1", "fd00::2", 1, 2)[EthernetLen:]
	labelled := testutil.Edit(testutil.UDP6("fd00::1", "fd00::2", 1, 2), 1, 0xb, 0x12, 0x34)[EthernetLen:]
	l4 := L4{Proto: UDP, Offset: IPv6Len}
	if FlowHashIPv6(p, l4, 1) != FlowHashIPv6(labelled, l4, 1) {
		t.Error("the flow label counts")
	}
}

func TestFragmentsOfAPacketHashAlike(t *testing.T) {
	first := testutil.UDP4("10.0.0.1", "10.0.0.2", 1, 2, make([]byte, 64)...)[EthernetLen:]
	first[6] = 0x20
	later := testutil.UDP4("10.0.0.1", "10.0.0.2", 77, 88, make([]byte, 64)...)[EthernetLen:]
	later[7] = 9
	if FlowHashIPv4(first, 5) != FlowHashIPv4(later, 5) {
		t.Error("IPv4 fragments take different paths")
	}
	one := v6(Fragment, frag(UDP, 0, 1), []byte{0, 1, 0, 2, 0, 0, 0, 0})
	two := v6(Fragment, frag(UDP, 9, 0), []byte{9, 9, 9, 9, 9, 9, 9, 9})
	l1, _ := FindL4(one)
	l2, _ := FindL4(two)
	if FlowHashIPv6(one, l1, 5) != FlowHashIPv6(two, l2, 5) {
		t.Error("IPv6 fragments take different paths")
	}
}

// The upper 8 bits choose among 256 buckets: flows that differ in one number
// only must spread over them evenly.
func TestFlowHashSpreads(t *testing.T) {
	const flows = 1 << 16
	dst := netip.MustParseAddr("10.1.0.0")
	var byPort, byAddr [256]int
	for i := range flows {
		byPort[hash4("10.0.0.2", uint16(i), 53, 9)>>24]++
		byAddr[hash4(dst.String(), 1, 2, 9)>>24]++
		dst = dst.Next()
	}
	for name, counts := range map[string][256]int{"ports": byPort, "addresses": byAddr} {
		var chi2 float64
		for _, n := range counts {
			d := float64(n) - flows/256
			chi2 += d * d / (flows / 256)
		}
		if chi2 > 400 { // 255 degrees of freedom: above 400 once in 10^8
			t.Errorf("%s: chi-square %v over 256 buckets", name, chi2)
		}
	}
}
