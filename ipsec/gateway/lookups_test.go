package gateway

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/policy"
)

// All packets of a batch get the results of one set of rules that was active meanwhile, while rules
// change and memory of old ones is reused.
func TestPolicyCachesFollowRuleChanges(t *testing.T) {
	const n = 30
	g := &Gateway{}
	var out, in [n]*ipsec.SA
	for i := range n {
		out[i] = newSA(t, g, ipsec.Out, fmt.Sprint("out", i), uint32(0x1000+i))
		in[i] = newSA(t, g, ipsec.In, fmt.Sprint("in", i), uint32(0x2000+i))
	}
	// In generation k, tunnel i has SA number i+k.
	rulesOf := func(k uint32) (rules []Rule) {
		for i := range uint32(n) {
			to := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i), 0}), 24)
			for d, sas := range [][n]*ipsec.SA{ipsec.In: in, ipsec.Out: out} {
				rules = append(rules, Rule{Direction: ipsec.Direction(d), Policy: policy.Policy{
					Src: prefix("0.0.0.0/0"), Dst: to, Action: policy.Protect, Target: sas[(i+k)%n].Tunnel(),
				}})
			}
		}
		return rules
	}
	var begun, active, batches atomic.Uint32
	change := func(k uint32) {
		begun.Store(k)
		if err := g.SetRules(rulesOf(k)); err != nil {
			t.Error(err)
		}
		active.Store(k)
	}
	change(0)
	var stop atomic.Bool
	worker := func(l Lookups) error {
		var flows [n]Flow
		for i := range flows {
			flows[i] = policy.IPv4Flow(1, 10<<24+uint32(i)<<8+7, 17, 1, 2)
		}
		for !stop.Load() {
			var sas [n]*ipsec.SA
			var errs [n]ipsec.Error
			first := active.Load()
			g.LookupOutboundBatch(&l, sas[:], errs[:], flows[:])
			last, k := begun.Load(), first
			for k <= last && sas[0] != out[k%n] {
				k++
			}
			for i := range uint32(n) {
				if k > last || sas[i] != out[(i+k)%n] || errs[i] != ipsec.OK {
					return fmt.Errorf("rules %d to %d: tunnel 0 leaves by number %d, tunnel %d by %d, %v",
						first, last, slices.Index(out[:], sas[0]), i, slices.Index(out[:], sas[i]), errs[i])
				}
			}
			var by [n]*ipsec.SA
			k = active.Load()
			for i := range uint32(n) {
				by[i] = in[(i+k)%n]
			}
			g.CheckInboundBatch(&l, errs[:], flows[:], by[:])
			for i, err := range errs {
				if err != ipsec.OK && k == begun.Load() || err != errs[0] {
					return fmt.Errorf("rules %d: tunnel %d's packets may not enter: %v", k, i, err)
				}
			}
			batches.Add(1)
		}
		return nil
	}
	failed := make(chan error, 2)
	for range 2 {
		go func() { failed <- worker(NewLookups()) }()
	}
	for k := uint32(1); k < 120; k++ {
		for before := batches.Load(); k%3 == 0 && batches.Load() < before+20 && len(failed) == 0; { // so that much is remembered
			runtime.Gosched()
		}
		change(k)
		if k%10 == 0 {
			runtime.GC()
		}
	}
	stop.Store(true)
	for range 2 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}
