package xfrm

import (
	"testing"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/ipsec/gateway"
)

func TestPortMasksAreRanges(t *testing.T) {
	for _, test := range []struct {
		port, mask uint16
		want       string // empty: refused
	}{
		{0, 0, "any"}, {80, 0xffff, "80"}, {0, 0xffff, "0"}, {1024, 0xfc00, "1024-2047"}, {0x8000, 0x8000, "32768-65535"},
		{443, 0xff00, "256-511"}, {80, 0x0fff, ""}, {80, 0xfffe, "80-81"}, {1, 1, ""}, {0, 0xff0f, ""},
	} {
		r, err := portMask{test.port, test.mask}.portRange()
		if (err != nil) != (test.want == "") || err == nil && r.String() != test.want {
			t.Errorf("port %d with mask %#x: %v, %v; want %q", test.port, test.mask, r, err, test.want)
		}
	}
}

func TestTruncatedMessagesAreErrors(t *testing.T) {
	for _, m := range []rtnl.Message{
		outState(0x200).message(msgNewSA), outState(0x200).message(msgDelSA), outState(0x200).message(msgExpire),
		outPolicy(1).message(msgNewPolicy), outPolicy(1).message(msgDelPolicy),
		{Type: msgGetDefault, Data: []byte{2, 2, 2}}, {Type: msgPolExpire, Data: make([]byte, sizeofPolExpire)},
	} {
		whole := m.Data
		for n := range whole {
			m.Data = whole[:n]
			f := newFake(t)
			if err := f.handle(m); err == nil && f.stats().Associations > 0 {
				t.Errorf("type %d of %d bytes of %d made an association", m.Type, n, len(whole))
			}
		}
		for _, n := range []int{0, 2} {
			m.Data = whole[:n]
			if err := newFake(t).handle(m); err == nil {
				t.Errorf("type %d of %d bytes: no error", m.Type, n)
			}
		}
	}
}

// FuzzHandle applies any message: the tables do not panic, and the gateway accepts their rules.
func FuzzHandle(f *testing.F) {
	for _, m := range []rtnl.Message{
		outState(0x200).message(msgNewSA), outState(0x200).message(msgDelSA), outState(0x200).message(msgExpire),
		outPolicy(1).message(msgNewPolicy), outPolicy(1).message(msgDelPolicy), {Type: msgGetDefault, Data: []byte{2, 2, 2}},
	} {
		f.Add(m.Type, m.Data)
	}
	f.Fuzz(func(t *testing.T, kind uint16, data []byte) {
		tables := newTables(new(gateway.Gateway), 1, Hooks{}, nil)
		_ = tables.handle(rtnl.Message{Type: kind, Data: data})
		tables.commit()
		if got := len(tables.gateway.Rules()); got < len(tables.policies) {
			t.Errorf("%d policies and %d rules", len(tables.policies), got)
		}
	})
}
