package policy

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/race"
	"github.com/warproute/warproute/internal/require"
)

// compare looks up packets in table and oracle, one by one and in batches, and returns the number of
// matches.
func (w *world) compare(t *testing.T, table *Table, packets []packet) (hits int) {
	t.Helper()
	flows := make([]Flow, len(packets))
	for i, p := range packets {
		flows[i] = flowOf(p)
	}
	numbers, verdicts := make([]int32, len(flows)), make([]Verdict, len(flows))
	table.LookupBatch(numbers, verdicts, flows)
	for i, p := range packets {
		got, v := table.lookup(p)
		want, action, target := oracle(w.rules, p)
		if got != want || v.Action() != action || v.Target() != target {
			t.Fatalf("%d rules, %+v: policy %d, %v %d; the oracle says %d, %v %d", len(w.rules), p, got, v.Action(), v.Target(), want, action, target)
		}
		if numbers[i] != got || verdicts[i] != v {
			t.Fatalf("%d rules, %+v: policy %d alone and %d in a batch", len(w.rules), p, got, numbers[i])
		}
		if got != None {
			hits++
		}
	}
	return hits
}

func (w *world) packets(n int) []packet {
	ps := make([]packet, n)
	for i := range ps {
		ps[i] = w.packet()
	}
	return ps
}

// build makes the table with no more copies than a limit, as Build does for one of its limits.
func (w *world) build(t *testing.T, copies int) *Table {
	t.Helper()
	table, err := compile(policies(w.rules), copies, maxWords)
	require.NoError(t, err)
	return table
}

func TestTheFirstMatchDecides(t *testing.T) {
	p, err := Build([]Policy{
		{Src: netip.MustParsePrefix("10.1.0.0/16"), Dst: netip.MustParsePrefix("10.2.0.0/16"), Protocol: 6, DstPorts: Port(22), Action: Bypass},
		{Src: netip.MustParsePrefix("10.0.0.0/8"), Dst: netip.MustParsePrefix("10.2.3.0/24"), Action: Protect, Target: 7},
		{Src: netip.MustParsePrefix("10.1.0.0/16"), Dst: netip.MustParsePrefix("10.2.3.4/32"), Action: Discard},
		{Src: netip.MustParsePrefix("0.0.0.0/0"), Dst: netip.MustParsePrefix("0.0.0.0/0"), Protocol: 1, SrcPorts: Port(8), DstPorts: Port(0), Action: Bypass},
		{Src: netip.MustParsePrefix("2001:db8::/32"), Dst: netip.MustParsePrefix("::/0"), Protocol: 17, SrcPorts: Ports(1, 65535), Action: Protect, Target: MaxTarget},
	})
	require.NoError(t, err)
	for _, tt := range []struct {
		name         string
		src, dst     string
		protocol     uint8
		sport, dport int
		want         int32
		action       Action
		target       uint32
	}{
		{"of several the first", "10.1.1.1", "10.2.3.4", 6, 1000, 22, 0, Bypass, 0},
		{"another port has the next", "10.1.1.1", "10.2.3.4", 6, 1000, 23, 1, Protect, 7},
		{"the longest prefix is not preferred", "10.1.1.1", "10.2.3.4", 17, 1000, 22, 1, Protect, 7},
		{"without ports it is of no range", "10.1.1.1", "10.2.3.4", 6, -1, -1, 1, Protect, 7},
		{"a fragment is not bypassed for its ports", "10.1.1.1", "10.2.3.4", 6, hidden, hidden, 1, Protect, 7},
		{"a fragment may have the ports that are protected", "2001:db8::1", "2001:db9::1", 17, hidden, hidden, 4, Protect, MaxTarget},
		{"a fragment may be of the protocol that is protected", "2001:db8::1", "2001:db9::1", HiddenProtocol, hidden, hidden, 4, Protect, MaxTarget},
		{"a fragment of another protocol", "2001:db8::1", "2001:db9::1", 6, hidden, hidden, None, Discard, 0},
		{"nothing matches", "10.1.1.1", "10.2.4.4", 17, 1, 1, None, Discard, 0},
		{"ICMP's type and code are ports", "192.0.2.1", "192.0.2.2", 1, 8, 0, 3, Bypass, 0},
		{"code 0 is not any", "192.0.2.1", "192.0.2.2", 1, 8, 1, None, Discard, 0},
		{"code 0 is not that of a fragment", "192.0.2.1", "192.0.2.2", 1, hidden, hidden, None, Discard, 0},
		{"IPv6", "2001:db8::1", "2001:db9::1", 17, 1, 9, 4, Protect, MaxTarget},
		{"IPv6 without ports", "2001:db8::1", "2001:db9::1", 17, -1, -1, None, Discard, 0},
		{"any IPv4 address is not any IPv6 address", "2001:db9::1", "2001:db9::1", 1, 8, 0, None, Discard, 0},
	} {
		got, v := p.lookup(packet{netip.MustParseAddr(tt.src), netip.MustParseAddr(tt.dst), tt.protocol, tt.sport, tt.dport})
		if got != tt.want || v.Action() != tt.action || v.Target() != tt.target {
			t.Errorf("%s: policy %d, %v %d; want %d, %v %d", tt.name, got, v.Action(), v.Target(), tt.want, tt.action, tt.target)
		}
	}
}

func TestRandomPoliciesAgreeWithTheOracle(t *testing.T) {
	hits, asked := 0, 0
	for n := range 200 {
		w := newWorld(uint64(n)).random(n)
		packets := w.packets(500)
		for _, copies := range []int{0, 1, 3, 1000} {
			hits += w.compare(t, w.build(t, copies), packets)
			asked += len(packets)
		}
	}
	if hits < asked/5 || hits > asked*4/5 {
		t.Errorf("%d of %d packets matched: too one-sided to tell", hits, asked)
	}
}

// Prefixes of one address of all lengths, in all orders.
func TestNestedPoliciesAgreeWithTheOracle(t *testing.T) {
	for seed := range uint64(5) {
		for _, ipv6 := range []bool{false, true} {
			w := newWorld(seed).nested(400, ipv6)
			packets := w.packets(race.Fewer(2000))
			for _, copies := range []int{0, 8, 1000} {
				w.compare(t, w.build(t, copies), packets)
			}
		}
	}
}

// Each prefix length alone: addresses just inside match, addresses just outside do not.
func TestEdgesOfPrefixes(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		w := newWorld(3)
		width := w.addr(ipv6).BitLen()
		for bits := range width + 1 {
			p := netip.PrefixFrom(w.addr(ipv6), bits).Masked()
			all := netip.PrefixFrom(p.Addr(), 0).Masked()
			for _, r := range []rule{{src: p, dst: all}, {src: all, dst: p}} {
				r.sport, r.dport = anyPort, anyPort
				w.rules = []rule{r}
				w.compare(t, w.build(t, 0), w.packets(100))
			}
		}
	}
}

func TestEdgesOfPorts(t *testing.T) {
	all := netip.MustParsePrefix("0.0.0.0/0")
	edges := []int{-1, 0, 1, 2, 32767, 32768, 65533, 65534, 65535}
	for _, first := range edges[1:] {
		for _, last := range edges[1:] {
			r := [2]int{first, last}
			if first > last || r == [2]int{0, 65535} {
				continue // refused, or any
			}
			w := newWorld(1)
			w.rules = []rule{{all, all, 6, r, anyPort, Bypass, 0}, {all, all, 17, anyPort, r, Bypass, 0}}
			var packets []packet
			for _, port := range edges {
				packets = append(packets, packet{all.Addr(), all.Addr(), 6, port, -1}, packet{all.Addr(), all.Addr(), 17, -1, port})
			}
			w.compare(t, w.build(t, 0), packets)
		}
	}
	if Ports(0, 65535) != (PortRange{}) {
		t.Error("all ports are not any")
	}
}

// Policy sets that would be large if every policy were copied wherever it can match.
func TestLargePolicySets(t *testing.T) {
	for kind, make := range kinds {
		for _, ipv6 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s ipv6=%v", kind, ipv6), func(t *testing.T) {
				w := make(newWorld(9), 10_000, ipv6)
				begin := time.Now()
				table, err := Build(policies(w.rules))
				require.NoError(t, err)
				if took := time.Since(begin); took > 5*time.Second { // 10 to 80 ms on an idle machine
					t.Errorf("built in %v", took)
				}
				if n := len(table.Words()); n > copyRoom {
					t.Errorf("%d words", n)
				}
				if hits := w.compare(t, table, w.packets(500)); hits < 100 {
					t.Errorf("only %d of 500 packets matched", hits)
				}
			})
		}
	}
}

// Any set of the promised size fits: nested as deep as possible, distinguished by as few bits as
// possible.
func TestTheWorstPoliciesFit(t *testing.T) {
	const promised = 20_000
	for _, stride := range []int{1, 3, 14} {
		w := newWorld(uint64(stride))
		for range promised {
			w.rules = append(w.rules, rule{w.comb(stride), w.comb(stride), 6, anyPort, anyPort, Bypass, 0})
		}
		table, err := Build(policies(w.rules))
		require.NoError(t, err)
		t.Logf("%d policies, %d bits a fork: %d words a policy", promised, stride, len(table.Words())/promised)
		w.compare(t, table, w.packets(50))
	}
}

func TestATableThatIsTooLargeIsRefused(t *testing.T) {
	w := newWorld(1).tunnels(1000, true)
	for _, room := range []int{0, header, 100, 10_000, 30_000} {
		if _, err := build(policies(w.rules), room); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("more memory than %d KiB", room/256)) {
			t.Errorf("1000 policies in %d words: %v", room, err)
		}
	}
}

func TestInvalidPoliciesAreRefused(t *testing.T) {
	ok := Policy{Src: netip.MustParsePrefix("10.0.0.0/8"), Dst: netip.MustParsePrefix("10.0.0.0/8")}
	for _, tt := range []struct {
		name string
		with func(*Policy)
		want string
	}{
		{"no prefix", func(p *Policy) { p.Src = netip.Prefix{} }, "missing"},
		{"bits beyond the length", func(p *Policy) { p.Dst = netip.MustParsePrefix("10.0.0.1/8") }, "did you mean 10.0.0.0/8?"},
		{"two families", func(p *Policy) { p.Dst = netip.MustParsePrefix("::/0") }, "two families"},
		{"range that is none", func(p *Policy) { p.DstPorts = Ports(2, 1) }, "ends before it begins"},
		{"unknown action", func(p *Policy) { p.Action = 4 }, "action 4"},
		{"target of refuse", func(p *Policy) { p.Action, p.Target = Refuse, 1 }, "has no meaning for refuse"},
		{"target too large", func(p *Policy) { p.Action, p.Target = Protect, MaxTarget+1 }, "larger than"},
		{"target of bypass", func(p *Policy) { p.Action, p.Target = Bypass, 1 }, "has no meaning for bypass"},
	} {
		bad := ok
		tt.with(&bad)
		if _, err := Build([]Policy{ok, bad}); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "policy 1") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestLookupsAllocateNothing(t *testing.T) {
	w := newWorld(1).overlapping(100, false).overlapping(100, true)
	table := w.build(t, 8)
	packets := w.packets(100)
	flows := make([]Flow, len(packets))
	for i, p := range packets {
		flows[i] = flowOf(p)
	}
	numbers, verdicts := make([]int32, len(flows)), make([]Verdict, len(flows))
	var src, dst [16]byte
	binary.BigEndian.PutUint32(src[:], 0x20010db8)
	c, other := NewCache(), w.build(t, 8)
	if n := testing.AllocsPerRun(100, func() {
		table.LookupBatch(numbers, verdicts, flows)
		c.LookupBatch(table, numbers, verdicts, flows)
		c.LookupBatch(other, numbers, verdicts, flows)
		table.LookupIPv4(0x0a000001, 0x0a000001, 6, 1, 1)
		table.LookupIPv6(&src, &dst, 6, 1, 1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Small sets from bytes: the fuzzer finds prefixes that share bits.
func FuzzSmallSets(f *testing.F) {
	f.Add([]byte("0123456789abcdef0123456789abcdef"), uint64(1))
	f.Add([]byte{8, 8, 10, 0, 10, 0, 0, 0, 16, 24, 10, 1, 10, 2, 3, 6, 0, 32, 0, 0, 10, 2, 3, 0}, uint64(2))
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		w := newWorld(seed)
		for ; len(b) >= 8 && len(w.rules) < 30; b = b[8:] {
			w.add(fuzzPrefix(b[0], b[2], b[3], b[6]&1), fuzzPrefix(b[1], b[4], b[5], b[6]&1))
		}
		packets := w.packets(100)
		for _, copies := range []int{0, 2, 100} {
			w.compare(t, w.build(t, copies), packets)
		}
	})
}

func fuzzPrefix(bits, first, last, ipv6 byte) netip.Prefix {
	var b [16]byte
	b[0], b[1], b[3], b[8], b[15] = first, last, last, first, last
	if ipv6 == 1 {
		return netip.PrefixFrom(netip.AddrFrom16(b), int(bits)%129).Masked()
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte(b[:4])), int(bits)%33).Masked()
}
