package gpu

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
)

// prefixAround returns a random prefix that contains most of the twins' addresses, or a few.
func (w *securedTwins) prefixAround(ipv6, dst bool) netip.Prefix {
	a, bits := fmt.Sprintf("10.%d.0.%d", 1+w.rnd.IntN(4), 1+w.rnd.IntN(250)), []int{0, 6, 8, 14, 16, 24, 28, 32}
	switch {
	case ipv6 && dst:
		a, bits = fmt.Sprintf("fd%02x::%x", 1+w.rnd.IntN(4), 1+w.rnd.IntN(1000)), []int{0, 7, 16, 64, 112, 120, 128}
	case ipv6:
		a, bits = "2001:db8::1", []int{0, 32, 64, 128}
	case !dst:
		a, bits = "192.0.2.1", []int{0, 8, 24, 32}
	}
	return netip.PrefixFrom(netip.MustParseAddr(a), bits[w.rnd.IntN(len(bits))]).Masked()
}

// randomRules returns policies that overlap in all selectors, for each gateway.
func (w *securedTwins) randomRules(n int) (rules [2][]gateway.Rule) {
	for range n {
		ipv6, k := w.rnd.IntN(2) == 0, w.rnd.IntN(len(w.all))
		p := policy.Policy{Src: w.prefixAround(ipv6, false), Dst: w.prefixAround(ipv6, true), Action: policy.Action(w.rnd.IntN(4))}
		d := ipsec.Direction(w.rnd.IntN(2))
		if w.rnd.IntN(3) > 0 {
			p.Protocol = 17
			if d == ipsec.In {
				p.Action, p.SrcPorts = policy.Protect, policy.Ports(uint16(inPort+k), uint16(inPort+k+w.rnd.IntN(3)))
			} else {
				p.DstPorts = policy.Ports(uint16(w.rnd.IntN(9)), uint16(9+w.rnd.IntN(2)))
			}
		}
		if d == ipsec.Out && p.Action == policy.Protect {
			p.Action = policy.Bypass // packets that are encrypted again may have other numbers
		}
		for i := range rules {
			p.Target = 0
			if p.Action == policy.Protect {
				p.Target = w.all[k].in[i].Tunnel()
			}
			rules[i] = append(rules[i], gateway.Rule{Direction: d, Policy: p})
		}
	}
	return rules
}

// TestDeviceAppliesThePolicies: random policies decide on decrypted packets as on the CPU engine. Each
// set replaces the one before.
func TestDeviceAppliesThePolicies(t *testing.T) { appliesPolicies(t, securedOnHost(3900), 12) }

func appliesPolicies(t *testing.T, maker securedMaker, sets int) {
	w := newSecuredTwins(t, maker, 21)
	for range sets {
		w.setRulesAfter(w.randomRules(w.rnd.IntN(30)))
		for range 3 {
			w.run(func() []byte { return w.inbound(w.rnd.IntN(len(w.all))) })
		}
	}
	agreedInShadow(t, w.gpu.engine)
	checkSeen(t, w.seen, 1, batch.XfrmInTmplMismatch, batch.XfrmInNoPols, batch.XfrmInPolBlock, batch.XfrmOutPolBlock, batch.XfrmPolicyRefused)
	if w.admitted < 100 {
		t.Errorf("the device admitted %d packets: too few", w.admitted)
	}
	t.Logf("%d opened and forwarded, %d of them admitted by the device, verdicts %v", w.opened, w.admitted, w.seen)
}

// TestPoliciesWaitForChunks: a buffer that chunks on the device may use is not written.
func TestPoliciesWaitForChunks(t *testing.T) {
	e := &Engine{}
	p := &policies{}
	p.engines.add(e)
	if !p.unused() {
		t.Error("in use before it had policies")
	}
	e.begun[1].Store(7)
	e.ended[1].Store(5)
	p.users = []chunkCounter{e.chunksOnGPU()}
	if start := time.Now(); p.unused() || time.Since(start) < policyWait {
		t.Errorf("unused after %v, with two chunks on the device", time.Since(start))
	}
	e.begun[1].Store(9)  // later ones do not use it
	e.begun[0].Store(20) // neither do those of another lane, whatever their number
	e.ended[0].Store(20)
	time.AfterFunc(10*time.Millisecond, func() { e.ended[1].Store(7) })
	if !p.unused() {
		t.Error("in use after its chunks have ended")
	}
	e.lostNow.Store(1)
	if p.unused() {
		t.Error("unused while an abandoned chunk may be on the device")
	}
}

// TestEnginesAreCreatedWhilePoliciesChange, as the mirror of Linux's policies starts before the workers.
func TestEnginesAreCreatedWhilePoliciesChange(t *testing.T) {
	_, library := newFake(t)
	net, g := testutil.NewNetwork(), &gateway.Gateway{}
	d := got(openFirst(net.FIB, Options{Library: library, Gateway: g}))(t)
	stop := make(chan struct{})
	var changes sync.WaitGroup
	changes.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				d.ipsecTables.SetPolicies(make([]uint32, 100), make([]uint32, 100))
			}
		}
	})
	for range 20 {
		mem := mapMemory(t, 1<<16)
		fallback := cpu.New(net.FIB, mem, net.PartialChecksums)
		fallback.Secure(g, 0)
		if _, err := d.NewEngine(mem, 1, 100, fallback); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	changes.Wait()
	require.NoError(t, errors.Join(d.Err(), d.Close()))
}

func TestTooManyPoliciesAreTheHosts(t *testing.T) {
	_, library := newFake(t)
	net, g := testutil.NewNetwork(), &gateway.Gateway{}
	d := got(openFirst(net.FIB, Options{Library: library, Gateway: g}))(t)
	next := d.ipsecTables.next
	d.ipsecTables.SetPolicies(make([]uint32, maxPolicyWords), nil)
	if d.ipsecTables.next != next {
		t.Error("policies without room were written")
	}
	if d.ipsecTables.SetPolicies(make([]uint32, maxPolicyWords-policyHeader), nil); d.ipsecTables.next == next {
		t.Error("policies with room were not written")
	}
	require.NoError(t, errors.Join(d.Err(), d.Close()))
}
