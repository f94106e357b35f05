package gateway

import (
	"net/netip"
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/policy"
)

// Missing reports a tunnel without an SA once, and again after Answered; if the channel is full, later.
func TestMissingSAsAreReportedOnce(t *testing.T) {
	g := &Gateway{Missing: make(chan uint32, 1)}
	any := netip.MustParsePrefix("0.0.0.0/0")
	var rules []Rule
	for i, dst := range []string{"10.1.0.0/16", "10.2.0.0/16"} {
		n := g.Tunnel(dst)
		if n != uint32(i) {
			t.Fatal(n)
		}
		rules = append(rules, Rule{Policy: policy.Policy{Src: any, Dst: netip.MustParsePrefix(dst), Action: policy.Protect, Target: n}})
	}
	require.NoError(t, g.SetRules(rules))
	packets := func(net uint32) {
		t.Helper()
		f := policy.IPv4Flow(1, 10<<24|net<<16|1, 6, 1, 2)
		for range 3 {
			if s, err := g.LookupOutbound(&f); s != nil || err != ipsec.OutNoStates {
				t.Fatal(s, err)
			}
		}
	}
	expect := func(want int) {
		t.Helper()
		got := -1
		select {
		case n := <-g.Missing:
			got = int(n)
		default:
		}
		if got != want {
			t.Errorf("reported %d, want %d", got, want)
		}
	}
	packets(1)
	packets(2) // and there is no room
	expect(0)
	expect(-1)
	packets(1)
	packets(2)
	expect(1)
	expect(-1)
	g.Answered(0)
	g.Answered(99)
	packets(2)
	packets(1)
	expect(0)
	expect(-1)
}
