package gateway

import (
	"net/netip"
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/policy"
)

// A tunnel's number is reused only when nothing uses it and no worker can hold it.
func TestTunnelNumbersAreReusedWhenNobodyHoldsThem(t *testing.T) {
	g := &Gateway{}
	first := g.Tunnel("first")
	in, out := newSA(t, g, ipsec.In, "first", 0x100), newSA(t, g, ipsec.Out, "first", 0x200)
	any := netip.MustParsePrefix("0.0.0.0/0")
	rule := func(n uint32) []Rule {
		return []Rule{{Policy: policy.Policy{Src: any, Dst: any, Action: policy.Protect, Target: n}}}
	}
	enforce := func(rules []Rule) {
		t.Helper()
		require.NoError(t, g.SetRules(rules))
	}
	enforce(rule(first))
	enforce(rule(first))
	for what, take := range map[string]func(){
		"an inbound association": func() { g.Remove(in); g.Remove(in) }, "an outbound one": func() { g.Remove(out); g.Remove(out) },
	} {
		if take(); len(g.Retire()) != 0 {
			t.Errorf("retired while something is there besides %s", what)
		}
	}
	if enforce(nil); len(g.Retire()) != 1 {
		t.Fatal("not retired when all is gone")
	}
	if n := len(g.Retire()); n != 0 {
		t.Errorf("%d retired again", n)
	}
	again := g.Tunnel("first")
	if again == first {
		t.Error("the number is another tunnel's while workers may know it")
	}
	g.Free([]uint32{first})
	if n := g.Tunnel("second"); n != first {
		t.Errorf("the next tunnel has number %d, want %d", n, first)
	}
	if err := g.SetRules(rule(first + 2)); err == nil {
		t.Error("a policy for no tunnel is no error")
	}
	if retired := g.Retire(); len(retired) != 2 {
		t.Errorf("%d retired of two that nothing came of", len(retired))
	}
}

// Active rules see each tunnel's current outbound SA, however many tunnels were added since.
func TestTunnelsNamedByRulesStay(t *testing.T) {
	g := &Gateway{}
	const n = pageSize + 3
	var rules []Rule
	sas := make([]*ipsec.SA, n)
	host := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }
	for i := range sas {
		sas[i] = newSA(t, g, ipsec.Out, host(i).String(), uint32(0x1000+i))
		rules = append(rules, Rule{Direction: ipsec.Out, Policy: policy.Policy{
			Src: netip.MustParsePrefix("0.0.0.0/0"), Dst: netip.PrefixFrom(host(i), 32), Action: policy.Protect, Target: sas[i].Tunnel(),
		}})
	}
	require.NoError(t, g.SetRules(rules))
	for i := range 2 * pageSize {
		g.Tunnel(netip.AddrFrom4([4]byte{1, 1, byte(i >> 8), byte(i)}).String())
	}
	for _, i := range []int{0, 1, pageSize - 1, pageSize, n - 1} {
		f := policy.IPv4Flow(1, 10<<24+uint32(i), 17, 1, 2)
		if s, err := g.LookupOutbound(&f); s != sas[i] || err != ipsec.OK {
			t.Fatalf("packets of tunnel %d leave by another's association: %v", i, err)
		}
		next := newSA(t, g, ipsec.Out, host(i).String(), uint32(0x9000+i))
		if s, _ := g.LookupOutbound(&f); s != next {
			t.Errorf("tunnel %d: the association of before is in use", i)
		}
		g.Remove(next)
		g.Remove(sas[i])
		if s, err := g.LookupOutbound(&f); s != nil || err != ipsec.OutNoStates {
			t.Errorf("tunnel %d: an association that was removed is in use: %v", i, err)
		}
	}
}
