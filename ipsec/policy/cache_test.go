package policy

import (
	"net/netip"
	"testing"
)

// through asks a cache about packets, several times, with other protocols and ports as well, and
// compares its answers with the table's.
func through(t *testing.T, c *Cache, w *world, table *Table, packets []packet) {
	t.Helper()
	var flows []Flow
	for _, p := range packets {
		flows = append(flows, flowOf(p))
		p.protocol, p.sport, p.dport = w.protocol(), w.port(anyPort), w.port(anyPort)
		flows = append(flows, flowOf(p))
	}
	numbers, verdicts := make([]int32, len(flows)), make([]Verdict, len(flows))
	for round := range 3 {
		for at := 0; at < len(flows); at += 50 {
			n := min(50, len(flows)-at)
			c.backOff = 0
			c.LookupBatch(table, numbers[at:at+n], verdicts[at:at+n], flows[at:at+n])
		}
		for i := range flows {
			if n, v := table.Lookup(&flows[i]); numbers[i] != n || verdicts[i] != v {
				t.Fatalf("%d rules, round %d, %+v: policy %d, verdict %#x, the table says %d, %#x", len(w.rules), round, flows[i], numbers[i], verdicts[i], n, v)
			}
		}
	}
}

// What is remembered is what the table says, whatever the policies: also when these change, and
// when there are more networks than places.
func TestCacheAgreesWithTheTable(t *testing.T) {
	c := NewCache()
	for seed := range uint64(150) {
		w := newWorld(seed)
		switch seed % 5 {
		case 0:
			w.random(1 + int(seed)%40)
		case 1:
			w.nested(20, seed%2 == 0)
		case 2:
			w.overlapping(60, false).overlapping(60, true)
		case 3:
			w.hub(100, seed%2 == 0).random(2)
		case 4:
			w.tunnels(50, seed%2 == 0).tunnels(50, seed%2 != 0)
		}
		through(t, c, w, w.build(t, 8), w.packets(200))
	}
	for _, ipv6 := range []bool{false, true} {
		w := newWorld(7).tunnels(3*sets, ipv6)
		through(t, c, w, w.build(t, 8), w.packets(4*sets))
	}
}

// IPv4 networks are none of IPv6 whose addresses begin alike.
func TestCacheSeparatesFamilies(t *testing.T) {
	w := newWorld(1)
	for i, p := range [][2]string{{"32.1.0.0/16", "32.2.0.0/16"}, {"2001::/16", "2002::/16"}} {
		w.rules = append(w.rules, rule{netip.MustParsePrefix(p[0]), netip.MustParsePrefix(p[1]), 0, anyPort, anyPort, Protect, uint32(i)})
	}
	through(t, NewCache(), w, w.build(t, 8), w.packets(50))
}

// flowsOf returns a flow of each of w's rules, of other hosts and ports each time.
func (w *world) flowsOf() (flows []Flow) {
	for _, r := range w.rules {
		flows = append(flows, flowOf(packet{w.inside(r.src), w.inside(r.dst), 6, w.IntN(65536), w.IntN(65536)}))
	}
	return flows
}

// The flows of tunnels that were met before are looked for in no table.
func TestCacheHoldsTunnels(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		w := newWorld(3).tunnels(50, ipv6)
		table, c := w.build(t, 8), NewCache()
		numbers, verdicts := make([]int32, 50), make([]Verdict, 50)
		c.LookupBatch(table, numbers, verdicts, w.flowsOf())
		table.words, c.backOff = nil, 0 // whoever looks there panics
		c.LookupBatch(table, numbers, verdicts, w.flowsOf())
		for i := range numbers {
			if numbers[i] != int32(i) || verdicts[i].Target() != uint32(i) {
				t.Fatalf("tunnel %d: policy %d, target %d", i, numbers[i], verdicts[i].Target())
			}
		}
		if c.backOff != 0 {
			t.Error("nothing is looked for where all is known")
		}
	}
}

// Where remembering is in vain, it is given up for a while.
func TestCacheBacksOffAfterMisses(t *testing.T) {
	any := netip.MustParsePrefix("0.0.0.0/0")
	front := newWorld(1)
	front.rules = append(front.rules, rule{any, any, 17, anyPort, [2]int{500, 500}, Bypass, 0})
	for what, w := range map[string]*world{"a policy of ports in front": front.tunnels(50, false), "too many networks": newWorld(2).tunnels(10*sets, false)} {
		table, c := w.build(t, 8), NewCache()
		tried, batches := 0, 0
		for range 3 {
			for flows := w.flowsOf(); len(flows) > 0; batches++ {
				n := min(len(flows), atOnce)
				numbers, verdicts := make([]int32, n), make([]Verdict, n)
				if c.backOff == 0 {
					tried++
				}
				c.LookupBatch(table, numbers, verdicts, flows[:n])
				flows = flows[n:]
			}
		}
		if want := (batches + backOffBatches) / (backOffBatches + 1); tried < want || tried > want*11/10 {
			t.Errorf("%s: tried in %d of %d batches, want about %d", what, tried, batches, want)
		}
	}
}
