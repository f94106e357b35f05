package gateway

import (
	"net/netip"
	"testing"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/policy"
)

// The number of a bundle is another's only when nothing has it, and nobody can know any
// more that something had it.
func TestANumberIsGivenAgainWhenNobodyKnowsIt(t *testing.T) {
	g := &Gateway{}
	first := g.Bundle("first")
	in, out := newSA(t, g, ipsec.In, "first", 0x100), newSA(t, g, ipsec.Out, "first", 0x200)
	any := netip.MustParsePrefix("0.0.0.0/0")
	rule := func(n uint32) []Rule {
		return []Rule{{Policy: policy.Policy{Src: any, Dst: any, Action: policy.Protect, Target: n}}}
	}
	enforce := func(rules []Rule) {
		t.Helper()
		if err := g.SetRules(rules); err != nil {
			t.Fatal(err)
		}
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
	again := g.Bundle("first")
	if again == first {
		t.Error("the number is another bundle's while workers may know it")
	}
	g.Free([]uint32{first})
	if n := g.Bundle("second"); n != first {
		t.Errorf("the next bundle has number %d, want %d", n, first)
	}
	if err := g.SetRules(rule(first + 2)); err == nil {
		t.Error("a policy for no bundle is no error")
	}
	if retired := g.Retire(); len(retired) != 2 {
		t.Errorf("%d retired of two that nothing came of", len(retired))
	}
}
