package xfrm

import (
	"net/netip"
	"testing"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
)

func ifIDAttr(id uint32) []byte { return rtnl.AppendAttr(nil, attrIfID, host.AppendUint32(nil, id)) }

// States and policies of one pair of gateways with other values of if_id are other tunnels, in any order of their
// arrival, and a policy does not use the state of another if_id. Policies without if_id apply first.
func TestTunnelsDifferByIfID(t *testing.T) {
	id := []uint32{0, 7, 8}
	for order := range 6 {
		f := newFake(t)
		var spis [3]uint32
		for i := range 3 {
			n := (i*(1+order%2) + order) % 3
			s, p := outState(uint32(0x200+n)), outPolicy(uint32(1+n))
			s.attrs, p.attrs, spis[n] = ifIDAttr(id[n]), ifIDAttr(id[n]), s.spi
			if n == 0 {
				p.dst = "10.2.9.0/24"
			}
			if order < 3 {
				f.apply(s.message(msgNewSA), p.message(msgNewPolicy))
			} else {
				f.apply(p.message(msgNewPolicy), s.message(msgNewSA))
			}
		}
		leavesTo := func(dst string, ifID uint32) (uint32, ipsec.Error) {
			flow := gateway.FlowIPv4(echo(netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr(dst), 1))
			sas, errs, l := []*ipsec.SA{nil}, []ipsec.Error{0}, gateway.NewLookups()
			f.gateway.LookupOutboundRouted(&l, sas, errs, []gateway.Flow{flow}, []uint32{ifID})
			if sas[0] == nil {
				return 0, errs[0]
			}
			return sas[0].Config().SPI, errs[0]
		}
		leaves := func(ifID uint32) (uint32, ipsec.Error) { return leavesTo("10.2.0.1", ifID) }
		for n := range id {
			if spi, err := leavesTo("10.2.9.1", id[n]); spi != spis[0] || err != ipsec.OK {
				t.Errorf("order %d: packets over if_id %d to networks of a policy without if_id leave by SPI %#x, %v", order, id[n], spi, err)
			}
			if id[n] == 0 {
				continue
			}
			if spi, err := leaves(id[n]); spi != spis[n] || err != ipsec.OK {
				t.Errorf("order %d: packets over if_id %d leave by SPI %#x, %v", order, id[n], spi, err)
			}
		}
		if spi, err := leaves(9); err != ipsec.OutNoPols {
			t.Errorf("order %d: packets over an interface without policies leave by SPI %#x, %v", order, spi, err)
		}
		s := outState(uint32(0x201))
		s.attrs = ifIDAttr(7)
		f.apply(s.message(msgDelSA))
		if spi, err := leaves(7); err != ipsec.OutNoStates {
			t.Errorf("order %d: without their SA packets leave by SPI %#x, %v", order, spi, err)
		}
		f.apply(outPolicy(2).message(msgDelPolicy))
		if spi, err := leaves(7); err != ipsec.OutNoPols {
			t.Errorf("order %d: without a policy packets leave by SPI %#x, %v", order, spi, err)
		}
		if st := f.stats(); st.RefusedPolicies+st.RefusedStates != 0 {
			t.Errorf("order %d: %+v", order, st)
		}
	}
}

// A decrypted packet passes the policies of its SA's interface while that is up. Otherwise, and in cleartext, it passes
// those without if_id only.
func TestPacketsAreReceivedOnTheInterfaceOfTheirSA(t *testing.T) {
	f := newFake(t)
	s, p := inState(0x300), inPolicy(1)
	s.attrs, p.attrs = ifIDAttr(7), ifIDAttr(7)
	f.apply(s.message(msgNewSA), p.message(msgNewPolicy))
	var sa *ipsec.SA
	for a := range f.gateway.All {
		sa = a
	}
	up := []gateway.Interface{{IfID: 7, Up: true}}
	for what, c := range map[string]struct {
		interfaces []gateway.Interface
		by         *ipsec.SA
		want       ipsec.Error
	}{
		"up":                    {up, sa, ipsec.OK},
		"down":                  {[]gateway.Interface{{IfID: 7}}, sa, ipsec.InNoPols},
		"missing":               {nil, sa, ipsec.InNoPols},
		"another":               {[]gateway.Interface{{IfID: 8, Up: true}}, sa, ipsec.InNoPols},
		"cleartext":             {up, nil, ipsec.OK},
		"cleartext without any": {nil, nil, ipsec.OK},
	} {
		f.gateway.SetInterfaces(c.interfaces)
		if got := f.received(c.by); got != c.want {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
}
