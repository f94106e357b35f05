package xfrm

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	ipsecpolicy "github.com/warproute/warproute/ipsec/policy"
)

func TestRekeyingKeepsTrafficFlowing(t *testing.T) {
	f := newFake(t)
	f.say(outPolicy(1).message(msgNewPolicy), inPolicy(2).message(msgNewPolicy))
	f.say(inState(0x100).message(msgUpdSA), outState(0x200).message(msgNewSA))
	for _, step := range []struct {
		what string
		msg  rtnl.Message
		out  uint32
		in   []uint32
	}{
		{"at first", outPolicy(1).message(msgUpdPolicy), 0x200, []uint32{0x100}},
		{"the new inbound one", inState(0x101).message(msgUpdSA), 0x200, []uint32{0x100, 0x101}},
		{"the new outbound one", outState(0x201).message(msgNewSA), 0x201, []uint32{0x100, 0x101}},
		{"the policy", outPolicy(1).message(msgUpdPolicy), 0x201, []uint32{0x100, 0x101}},
		{"the end of the old outbound one", outState(0x200).message(msgDelSA), 0x201, []uint32{0x100, 0x101}},
		{"the end of the old inbound one", inState(0x100).message(msgDelSA), 0x201, []uint32{0x101}},
	} {
		f.say(step.msg)
		if got := f.spiInUse(); got != step.out {
			t.Errorf("%s: packets leave by %#x, want %#x", step.what, got, step.out)
		}
		for _, spi := range step.in {
			if s := f.gateway.Inbound(spi, here); s == nil || f.received(s) != ipsec.OK {
				t.Errorf("%s: packets by %#x do not come in", step.what, spi)
			}
		}
	}
	if f.gateway.Inbound(0x100, here) != nil || len(f.states) != 2 {
		t.Errorf("the old associations are not gone: %d states", len(f.states))
	}
}

// Whoever answers a request to rekey has the new association before the other end does.
func TestPolicySPISelectsOutboundSA(t *testing.T) {
	asking := func(spi uint32) sp { p := outPolicy(1); p.spi = spi; return p }
	f := newFake(t)
	for _, step := range []struct {
		what string
		msg  rtnl.Message
		out  uint32
	}{
		{"a policy without a state", outPolicy(1).message(msgNewPolicy), 0},
		{"a state", outState(0x200).message(msgNewSA), 0x200},
		{"a policy that names it", asking(0x200).message(msgUpdPolicy), 0x200},
		{"the next state", outState(0x201).message(msgNewSA), 0x200},
		{"a policy that names the next", asking(0x201).message(msgUpdPolicy), 0x201},
		{"the end of the first state", outState(0x200).message(msgDelSA), 0x201},
		{"a third state", outState(0x202).message(msgNewSA), 0x201},
		{"the end of the one that is named", outState(0x201).message(msgDelSA), 0x202},
		{"a fourth state, while the policy names none that is there", outState(0x203).message(msgNewSA), 0x203},
		{"a policy that names the third", asking(0x202).message(msgUpdPolicy), 0x202},
		{"a policy that names none", outPolicy(1).message(msgUpdPolicy), 0x203},
		{"a policy that names the third again", asking(0x202).message(msgUpdPolicy), 0x202},
		{"the end of the policy", outPolicy(1).message(msgDelPolicy), 0},
		{"another one", outPolicy(1).message(msgNewPolicy), 0x203},
	} {
		f.say(step.msg)
		if got := f.spiInUse(); got != step.out {
			t.Errorf("%s: packets leave by %#x, want %#x", step.what, got, step.out)
		}
	}
}

func TestProtectedTrafficIsDroppedWithoutSA(t *testing.T) {
	refused := outState(0x200)
	refused.change = func(info []byte) { info[214] = 4 } // BEET
	f := newFake(t)
	f.say(outPolicy(1).message(msgNewPolicy), inPolicy(2).message(msgNewPolicy))
	check := func(when string) {
		t.Helper()
		if s, e := f.inUse(); s != nil || e != ipsec.OutNoStates {
			t.Errorf("%s: packets leave by %v (%v)", when, s, e)
		}
		if e := f.received(nil); e != ipsec.InTmplMismatch {
			t.Errorf("%s: packets in clear: %v", when, e)
		}
	}
	check("before there is a state")
	f.say(refused.message(msgNewSA))
	check("with one that is refused")
	if s := f.stats(); s.RefusedStates != 1 || s.Associations != 0 {
		t.Errorf("counted as %+v", s)
	}
	f.say(outState(0x201).message(msgNewSA))
	if f.spiInUse() != 0x201 {
		t.Error("packets do not leave by a good one")
	}
	f.say(outState(0x201).message(msgExpire))
	check("after a hard limit")
}

func TestSoftExpiryKeepsSA(t *testing.T) {
	f := newFake(t)
	soft := outState(0x200).message(msgExpire)
	soft.Data[sizeofSA] = 0
	f.say(outPolicy(1).message(msgNewPolicy), outState(0x200).message(msgNewSA), soft)
	if f.spiInUse() != 0x200 {
		t.Error("the association is gone")
	}
}

func TestRefusedPoliciesDiscardTheirSelector(t *testing.T) {
	mark := make([]byte, 8)
	mark[4] = 1
	for _, test := range []struct {
		what   string
		change func(info, tmpl []byte)
		attrs  []byte
	}{
		{"two templates", nil, rtnl.AppendAttr(nil, attrTmpl, make([]byte, 2*sizeofTmpl))},
		{"a template of AH", func(_, tmpl []byte) { tmpl[20] = unix.IPPROTO_AH }, nil},
		{"a template in BEET mode", func(_, tmpl []byte) { tmpl[48] = 4 }, nil},
		{"an optional template", func(_, tmpl []byte) { tmpl[50] = 1 }, nil},
		{"a template for any address", func(_, tmpl []byte) { clear(tmpl[:4]) }, nil},
		{"a template for any address of transport mode, between networks", func(_, tmpl []byte) { clear(tmpl[:4]); tmpl[48] = modeTransport }, nil},
		{"ports of two ranges", func(info, _ []byte) { copy(info[32:], []byte{0, 80, 0x0f, 0xff}) }, nil},
		{"a GRE key", func(info, _ []byte) { info[44] = 47; copy(info[32:], []byte{0, 80, 0xff, 0xff}) }, nil},
		{"an interface", func(info, _ []byte) { info[48] = 1 }, nil},
		{"a user", func(info, _ []byte) { info[52] = 1 }, nil},
		{"a mark", nil, rtnl.AppendAttr(nil, attrMark, mark)},
		{"an XFRM interface", nil, rtnl.AppendAttr(nil, attrIfID, []byte{1, 0, 0, 0})},
		{"being a sub policy", nil, rtnl.AppendAttr(nil, attrPolicyType, []byte{1, 0, 0, 0, 0, 0})},
		{"a security context", nil, rtnl.AppendAttr(nil, attrSecCtx, make([]byte, 8))},
	} {
		f := newFake(t)
		p := outPolicy(1)
		p.change, p.attrs = test.change, test.attrs
		p.noTmpl = test.what == "two templates"
		f.say(outState(0x200).message(msgNewSA), p.message(msgNewPolicy))
		all := f.gateway.Rules()
		if len(all) != 1 || all[0].Action != ipsecpolicy.Refuse || all[0].Refusal == "" || all[0].SrcPorts.String() != "any" || all[0].DstPorts.String() != "any" {
			t.Errorf("a policy with %s became %v", test.what, all)
		}
		if f.stats().RefusedPolicies != 1 {
			t.Errorf("a policy with %s is not counted as refused", test.what)
		}
	}
}

func TestTransportPolicyBetweenHostsSelectsTheirSA(t *testing.T) {
	f := newFake(t)
	p := outPolicy(1)
	p.src, p.dst = here.String()+"/32", there.String()+"/32"
	p.change = func(_, tmpl []byte) { clear(tmpl[:4]); clear(tmpl[28:32]); tmpl[48] = modeTransport }
	s := outState(0x200)
	s.change = func(info []byte) { // with the selector that strongSwan gives it
		info[214] = modeTransport
		host.PutUint16(info[40:], putAddress(info, there))
		putAddress(info[16:], here)
		info[42], info[43] = 32, 32
	}
	f.say(p.message(msgNewPolicy), s.message(msgNewSA))
	for a := range f.gateway.All {
		if rules := f.gateway.Rules(); len(rules) != 1 || rules[0].Target != a.Tunnel() || a.Mode() != ipsec.Transport {
			t.Errorf("%v and tunnel %d", rules, a.Tunnel())
		}
		return
	}
	t.Errorf("no association: %+v", f.stats())
}

func TestPoliciesMatchByPriorityThenAge(t *testing.T) {
	policy := func(index, priority uint32, src string) rtnl.Message {
		return sp{index: index, src: src, dst: "10.2.0.0/16", dir: dirOut, priority: priority, noTmpl: true}.message(msgNewPolicy)
	}
	f := newFake(t)
	f.say(policy(1, 20, "10.0.1.0/24"), policy(2, 10, "10.0.2.0/24"), policy(3, 10, "10.0.3.0/24"), policy(4, 20, "10.0.4.0/24"))
	f.say(policy(2, 10, "10.0.2.0/24")) // updated, it is the youngest
	f.say(sp{index: 4, src: "10.0.4.0/24", dst: "10.2.0.0/16"}.message(msgDelPolicy))
	socket := sp{index: 5, src: "10.0.5.0/24", dst: "10.2.0.0/16", dir: dirSockets, noTmpl: true}
	f.say(socket.message(msgNewPolicy))
	var got []string
	for _, r := range f.gateway.Rules() {
		got = append(got, r.Src.String())
	}
	want := []string{"10.0.3.0/24", "10.0.2.0/24", "10.0.1.0/24"}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("the order is %v, want %v", got, want)
	}
}

// Linux asks in policies of packets to the router itself alone.
func TestInputPoliciesDoNotApplyToForwardedPackets(t *testing.T) {
	bypass := sp{index: 1, src: "10.2.0.0/16", dst: "10.1.0.0/16", dir: dirIn, priority: 10, noTmpl: true}
	block := sp{index: 2, src: "10.2.9.0/24", dst: "10.1.0.0/16", dir: dirIn, priority: 30, noTmpl: true, block: true}
	protect := sp{index: 3, src: "10.2.0.0/16", dst: "10.1.0.0/16", dir: dirFwd, priority: 20}
	f := newFake(t)
	f.say(bypass.message(msgNewPolicy), block.message(msgNewPolicy), protect.message(msgNewPolicy))
	clear := gateway.FlowIPv4(echo(netip.MustParseAddr("10.2.0.1"), netip.MustParseAddr("10.1.0.1"), 1))
	if e := f.gateway.CheckInbound(&clear, nil); e != ipsec.InTmplMismatch {
		t.Errorf("a packet that is forwarded passes in clear by a policy for the router itself: %v", e)
	}
	protect.priority = 40
	f.say(protect.message(msgUpdPolicy))
	clear = gateway.FlowIPv4(echo(netip.MustParseAddr("10.2.9.1"), netip.MustParseAddr("10.1.0.1"), 1))
	if e := f.gateway.CheckInbound(&clear, nil); e != ipsec.InPolBlock {
		t.Errorf("a policy of the router itself that blocks does not: %v", e)
	}
}

func TestDirectionComesFromStateAddressesOrPolicy(t *testing.T) {
	told := func(d byte) []byte { return rtnl.AppendAttr(nil, attrDirection, []byte{d}) }
	beyond := there.Next()
	policy := outPolicy(1)
	policy.change = func(_, tmpl []byte) { putAddress(tmpl[28:], beyond) }
	for _, test := range []struct {
		what  string
		state sa
		want  string
	}{
		{"a local source", sa{src: here, dst: there}, "out"},
		{"a local destination", sa{src: there, dst: here}, "in"},
		{"the state, against its addresses", sa{src: here, dst: there, attrs: told(directionIn)}, "in"},
		{"the state", sa{src: beyond, dst: there, attrs: told(directionOut)}, "out"},
		{"nothing", sa{src: there, dst: beyond}, ""},
		{"a policy", sa{src: beyond, dst: there}, "out"},
	} {
		f := newFake(t)
		test.state.spi = 0x200
		f.say(test.state.message(msgNewSA))
		f.say(policy.message(msgNewPolicy))
		got := ""
		for s := range f.gateway.All {
			got = s.Config().Direction.String()
		}
		if got != test.want {
			t.Errorf("%s tells %q, want %q", test.what, got, test.want)
		}
		if undecided := f.stats().Undecided; (undecided == 1) != (test.want == "") {
			t.Errorf("%s: %d are undecided", test.what, undecided)
		}
	}
}

func TestDumpKeepsUnchangedSAs(t *testing.T) {
	f := newFake(t)
	f.say(outPolicy(1).message(msgNewPolicy), outPolicy(7).message(msgNewPolicy))
	f.say(inState(0x100).message(msgNewSA), outState(0x200).message(msgNewSA), outState(0x201).message(msgNewSA))
	kept := f.gateway.Inbound(0x100, here)

	var d dump // newest first
	for _, s := range []sa{outState(0x203), outState(0x202), inState(0x100)} {
		require.NoError(t, d.state(s.message(msgNewSA)))
	}
	require.NoError(t, d.policy(outPolicy(1).message(msgNewPolicy)))
	f.compare(&d)
	f.commit()
	if f.gateway.Inbound(0x100, here) != kept {
		t.Error("an association that is as it was has been replaced")
	}
	if got := f.spiInUse(); got != 0x203 || len(f.states) != 3 || len(f.gateway.Rules()) != 1 {
		t.Errorf("packets leave by %#x; %d states, %d policies", got, len(f.states), len(f.gateway.Rules()))
	}
	f.say(outState(0x203).message(msgDelSA))
	if got := f.spiInUse(); got != 0x202 {
		t.Errorf("without the newest, packets leave by %#x", got)
	}
}

func TestDefaultPolicyDiscardsUnmatchedPackets(t *testing.T) {
	f := newFake(t)
	f.say(rtnl.Message{Type: msgGetDefault, Data: []byte{2, 1, 1}})
	if _, e := f.inUse(); e != ipsec.OutPolBlock {
		t.Errorf("outbound: %v", e)
	}
	if e := f.received(nil); e != ipsec.InPolBlock {
		t.Errorf("inbound: %v", e)
	}
}

// Receivers choose SPIs, so two may choose the same: metrics tell associations apart by
// name, SPI and direction.
func TestSAsHaveDistinctNames(t *testing.T) {
	f := newFake(t)
	a, b := outState(0x200), outState(0x200)
	b.dst, b.key = there.Next(), a.key+1
	f.say(a.message(msgNewSA), b.message(msgNewSA))
	names := map[string]bool{}
	for s := range f.gateway.All {
		names[s.Config().Name] = true
	}
	if len(names) != 2 {
		t.Errorf("two associations have the names %v", names)
	}
}

// A refused policy is not one that discards as its author wants: packets that match it are
// dropped by a reason of its own, in both directions.
func TestRefusedPoliciesHaveTheirOwnDropReason(t *testing.T) {
	f := newFake(t)
	ifID := rtnl.AppendAttr(nil, attrIfID, []byte{42, 0, 0, 0})
	out, in := outPolicy(1), inPolicy(2)
	out.attrs, in.attrs = ifID, ifID
	f.say(outState(0x200).message(msgNewSA), out.message(msgNewPolicy), in.message(msgNewPolicy))
	if s, e := f.inUse(); s != nil || e != ipsec.PolicyRefused {
		t.Errorf("outbound: %v, %v", s, e)
	}
	if e := f.received(nil); e != ipsec.PolicyRefused {
		t.Errorf("inbound: %v", e)
	}
	for _, r := range f.gateway.Rules() {
		if r.Refusal != "belongs to an XFRM interface (if_id 42)" {
			t.Errorf("%v is refused because %q", r.Policy, r.Refusal)
		}
	}
}
