package xfrm

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	ipsecpolicy "github.com/warproute/warproute/ipsec/policy"
)

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
		{"an XFRM interface and transport mode", func(_, tmpl []byte) { tmpl[48] = modeTransport }, rtnl.AppendAttr(nil, attrIfID, []byte{1, 0, 0, 0})},
		{"being a sub policy", nil, rtnl.AppendAttr(nil, attrPolicyType, []byte{1, 0, 0, 0, 0, 0})},
		{"a security context", nil, rtnl.AppendAttr(nil, attrSecCtx, make([]byte, 8))},
	} {
		f := newFake(t)
		p := outPolicy(1)
		p.change, p.attrs = test.change, test.attrs
		p.noTmpl = test.what == "two templates"
		f.apply(outState(0x200).message(msgNewSA), p.message(msgNewPolicy))
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
	f.apply(p.message(msgNewPolicy), s.message(msgNewSA))
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
	f.apply(policy(1, 20, "10.0.1.0/24"), policy(2, 10, "10.0.2.0/24"), policy(3, 10, "10.0.3.0/24"), policy(4, 20, "10.0.4.0/24"))
	f.apply(policy(2, 10, "10.0.2.0/24")) // an update makes it the youngest
	f.apply(sp{index: 4, src: "10.0.4.0/24", dst: "10.2.0.0/16"}.message(msgDelPolicy))
	socket := sp{index: 5, src: "10.0.5.0/24", dst: "10.2.0.0/16", dir: dirSockets, noTmpl: true}
	f.apply(socket.message(msgNewPolicy))
	var got []string
	for _, r := range f.gateway.Rules() {
		got = append(got, r.Src.String())
	}
	want := []string{"10.0.3.0/24", "10.0.2.0/24", "10.0.1.0/24"}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("the order is %v, want %v", got, want)
	}
}

// In policies apply to packets for the router itself only, as in Linux.
func TestInputPoliciesDoNotApplyToForwardedPackets(t *testing.T) {
	bypass := sp{index: 1, src: "10.2.0.0/16", dst: "10.1.0.0/16", dir: dirIn, priority: 10, noTmpl: true}
	block := sp{index: 2, src: "10.2.9.0/24", dst: "10.1.0.0/16", dir: dirIn, priority: 30, noTmpl: true, block: true}
	protect := sp{index: 3, src: "10.2.0.0/16", dst: "10.1.0.0/16", dir: dirFwd, priority: 20}
	f := newFake(t)
	f.apply(bypass.message(msgNewPolicy), block.message(msgNewPolicy), protect.message(msgNewPolicy))
	clear := gateway.FlowIPv4(echo(netip.MustParseAddr("10.2.0.1"), netip.MustParseAddr("10.1.0.1"), 1))
	if e := f.gateway.CheckInbound(&clear, nil); e != ipsec.InTmplMismatch {
		t.Errorf("a packet that is forwarded passes in cleartext by a policy for the router itself: %v", e)
	}
	protect.priority = 40
	f.apply(protect.message(msgUpdPolicy))
	clear = gateway.FlowIPv4(echo(netip.MustParseAddr("10.2.9.1"), netip.MustParseAddr("10.1.0.1"), 1))
	if e := f.gateway.CheckInbound(&clear, nil); e != ipsec.InPolBlock {
		t.Errorf("a policy of the router itself that blocks does not: %v", e)
	}
}

func TestDefaultPolicyDiscardsUnmatchedPackets(t *testing.T) {
	f := newFake(t)
	f.apply(rtnl.Message{Type: msgGetDefault, Data: []byte{2, 1, 1}})
	if _, e := f.outbound(); e != ipsec.OutPolBlock {
		t.Errorf("outbound: %v", e)
	}
	if e := f.received(nil); e != ipsec.InPolBlock {
		t.Errorf("inbound: %v", e)
	}
}

// Packets of a refused policy are dropped with another reason than those of a policy that discards,
// in both directions.
func TestRefusedPoliciesHaveTheirOwnDropReason(t *testing.T) {
	f := newFake(t)
	mark := rtnl.AppendAttr(nil, attrMark, []byte{42, 0, 0, 0, 255, 255, 255, 255})
	out, in := outPolicy(1), inPolicy(2)
	out.attrs, in.attrs = mark, mark
	f.apply(outState(0x200).message(msgNewSA), out.message(msgNewPolicy), in.message(msgNewPolicy))
	if s, e := f.outbound(); s != nil || e != ipsec.PolicyRefused {
		t.Errorf("outbound: %v, %v", s, e)
	}
	if e := f.received(nil); e != ipsec.PolicyRefused {
		t.Errorf("inbound: %v", e)
	}
	for _, r := range f.gateway.Rules() {
		if r.Refusal != "has a mark" {
			t.Errorf("%v is refused because %q", r.Policy, r.Refusal)
		}
	}
}
