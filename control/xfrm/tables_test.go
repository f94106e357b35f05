package xfrm

import (
	"testing"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
)

func TestRekeyingKeepsTrafficFlowing(t *testing.T) {
	f := newFake(t)
	f.apply(outPolicy(1).message(msgNewPolicy), inPolicy(2).message(msgNewPolicy))
	f.apply(inState(0x100).message(msgUpdSA), outState(0x200).message(msgNewSA))
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
		f.apply(step.msg)
		if got := f.outboundSPI(); got != step.out {
			t.Errorf("%s: packets use %#x, want %#x", step.what, got, step.out)
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

// The responder of a rekey has the new SA before the initiator does.
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
		f.apply(step.msg)
		if got := f.outboundSPI(); got != step.out {
			t.Errorf("%s: packets use %#x, want %#x", step.what, got, step.out)
		}
	}
}

func TestProtectedTrafficIsDroppedWithoutSA(t *testing.T) {
	refused := outState(0x200)
	refused.change = func(info []byte) { info[214] = 4 } // BEET
	f := newFake(t)
	f.apply(outPolicy(1).message(msgNewPolicy), inPolicy(2).message(msgNewPolicy))
	check := func(when string) {
		t.Helper()
		if s, e := f.outbound(); s != nil || e != ipsec.OutNoStates {
			t.Errorf("%s: packets use %v (%v)", when, s, e)
		}
		if e := f.received(nil); e != ipsec.InTmplMismatch {
			t.Errorf("%s: packets in cleartext: %v", when, e)
		}
	}
	check("before there is a state")
	f.apply(refused.message(msgNewSA))
	check("with one that is refused")
	if s := f.stats(); s.RefusedStates != 1 || s.Associations != 0 {
		t.Errorf("counted as %+v", s)
	}
	f.apply(outState(0x201).message(msgNewSA))
	if f.outboundSPI() != 0x201 {
		t.Error("packets do not leave by a good one")
	}
	f.apply(outState(0x201).message(msgExpire))
	check("after a hard limit")
}

func TestSoftExpiryKeepsSA(t *testing.T) {
	f := newFake(t)
	soft := outState(0x200).message(msgExpire)
	soft.Data[sizeofSA] = 0
	f.apply(outPolicy(1).message(msgNewPolicy), outState(0x200).message(msgNewSA), soft)
	if f.outboundSPI() != 0x200 {
		t.Error("the association is gone")
	}
}

func TestDirectionComesFromStateAddressesOrPolicy(t *testing.T) {
	dir := func(d byte) []byte { return rtnl.AppendAttr(nil, attrDirection, []byte{d}) }
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
		{"the state, against its addresses", sa{src: here, dst: there, attrs: dir(directionIn)}, "in"},
		{"the state", sa{src: beyond, dst: there, attrs: dir(directionOut)}, "out"},
		{"nothing", sa{src: there, dst: beyond}, ""},
		{"a policy", sa{src: beyond, dst: there}, "out"},
	} {
		f := newFake(t)
		test.state.spi = 0x200
		f.apply(test.state.message(msgNewSA))
		f.apply(policy.message(msgNewPolicy))
		got := ""
		for s := range f.gateway.All {
			got = s.Config().Direction.String()
		}
		if got != test.want {
			t.Errorf("%s gives %q, want %q", test.what, got, test.want)
		}
		if undecided := f.stats().Undecided; (undecided == 1) != (test.want == "") {
			t.Errorf("%s: %d are undecided", test.what, undecided)
		}
	}
}

func TestDumpKeepsUnchangedSAs(t *testing.T) {
	f := newFake(t)
	f.apply(outPolicy(1).message(msgNewPolicy), outPolicy(7).message(msgNewPolicy))
	f.apply(inState(0x100).message(msgNewSA), outState(0x200).message(msgNewSA), outState(0x201).message(msgNewSA))
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
	if got := f.outboundSPI(); got != 0x203 || len(f.states) != 3 || len(f.gateway.Rules()) != 1 {
		t.Errorf("packets use %#x; %d states, %d policies", got, len(f.states), len(f.gateway.Rules()))
	}
	f.apply(outState(0x203).message(msgDelSA))
	if got := f.outboundSPI(); got != 0x202 {
		t.Errorf("without the newest, packets use %#x", got)
	}
}

// Receivers choose SPIs, so that two can be equal: metrics distinguish SAs by name, SPI and
// direction.
func TestSAsHaveDistinctNames(t *testing.T) {
	f := newFake(t)
	a, b := outState(0x200), outState(0x200)
	b.dst, b.key = there.Next(), a.key+1
	f.apply(a.message(msgNewSA), b.message(msgNewSA))
	names := map[string]bool{}
	for s := range f.gateway.All {
		names[s.Config().Name] = true
	}
	if len(names) != 2 {
		t.Errorf("two associations have the names %v", names)
	}
}
