package xfrm

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
)

var (
	here  = netip.MustParseAddr("192.0.2.1") // the router's own
	there = netip.MustParseAddr("192.0.2.2")
)

// sa is an XFRM state of AES-128-GCM in tunnel mode, apart from change.
type sa struct {
	src, dst netip.Addr
	spi      uint32
	key      byte // other numbers, other keys
	sequence uint32
	attrs    []byte
	change   func(info []byte)
}

func outState(spi uint32) sa { return sa{src: here, dst: there, spi: spi, key: byte(spi>>4 | spi&15)} }
func inState(spi uint32) sa  { return sa{src: there, dst: here, spi: spi, key: byte(spi>>4 | spi&15)} }

// info returns struct xfrm_usersa_info.
func (s sa) info() []byte {
	b := make([]byte, sizeofSA)
	host.PutUint16(b[212:], putAddress(b[56:], s.dst))
	putAddress(b[80:], s.src)
	binary.BigEndian.PutUint32(b[72:], s.spi)
	b[76] = unix.IPPROTO_ESP
	for i := 96; i < 128; i += 8 {
		host.PutUint64(b[i:], infinite)
	}
	host.PutUint32(b[208:], 1) // reqid
	b[214], b[215] = modeTunnel, 32
	if s.change != nil {
		s.change(b)
	}
	return b
}

// attributes returns the attributes after the header.
func (s sa) attributes() []byte {
	alg := make([]byte, sizeofAlgoSized+20)
	copy(alg, "rfc4106(gcm(aes))")
	host.PutUint32(alg[64:], 160)
	host.PutUint32(alg[68:], 128)
	copy(alg[sizeofAlgoSized:], keyOf(20, s.key))
	replay := make([]byte, sizeofReplay)
	host.PutUint32(replay, s.sequence)
	host.PutUint32(replay[4:], s.sequence)
	return rtnl.AppendAttr(rtnl.AppendAttr(s.attrs, attrReplay, replay), attrAlgAEAD, alg)
}

func (s sa) message(kind uint16) rtnl.Message {
	switch kind {
	case msgDelSA:
		return rtnl.Message{Type: kind, Data: append(rtnl.AppendAttr(make([]byte, sizeofSAID), attrSA, s.info()), s.attributes()...)}
	case msgExpire:
		b := append(s.info(), make([]byte, sizeofExpire-sizeofSA)...)
		b[sizeofSA] = 1
		return rtnl.Message{Type: kind, Data: append(b, s.attributes()...)}
	}
	return rtnl.Message{Type: kind, Data: append(s.info(), s.attributes()...)}
}

// sp is an XFRM policy with a template between two networks, apart from change.
type sp struct {
	index    uint32
	src, dst string
	dir      uint8
	priority uint32
	spi      uint32 // in the template
	block    bool
	noTmpl   bool
	attrs    []byte
	change   func(info, tmpl []byte)
}

func outPolicy(index uint32) sp {
	return sp{index: index, src: "10.1.0.0/16", dst: "10.2.0.0/16", dir: dirOut}
}
func inPolicy(index uint32) sp {
	return sp{index: index, src: "10.2.0.0/16", dst: "10.1.0.0/16", dir: dirIn}
}

func (p sp) message(kind uint16) rtnl.Message {
	info, tmpl := make([]byte, sizeofPolicy), make([]byte, sizeofTmpl)
	src, dst := netip.MustParsePrefix(p.src), netip.MustParsePrefix(p.dst)
	host.PutUint16(info[40:], putAddress(info, dst.Addr()))
	putAddress(info[16:], src.Addr())
	info[42], info[43] = byte(dst.Bits()), byte(src.Bits())
	host.PutUint32(info[152:], p.priority)
	host.PutUint32(info[156:], p.index)
	info[160] = p.dir
	if p.block {
		info[161] = 1
	}
	from, to := here, there
	if p.dir != dirOut {
		from, to = there, here
	}
	host.PutUint16(tmpl[24:], putAddress(tmpl, to))
	putAddress(tmpl[28:], from)
	binary.BigEndian.PutUint32(tmpl[16:], p.spi)
	tmpl[20] = unix.IPPROTO_ESP
	host.PutUint32(tmpl[44:], 1)
	tmpl[48] = modeTunnel
	if p.change != nil {
		p.change(info, tmpl)
	}
	if kind == msgDelPolicy {
		return rtnl.Message{Type: kind, Data: rtnl.AppendAttr(make([]byte, sizeofPolicyID), attrPolicy, info)}
	}
	if !p.noTmpl {
		info = rtnl.AppendAttr(info, attrTmpl, tmpl)
	}
	return rtnl.Message{Type: kind, Data: append(info, p.attrs...)}
}

// fake replaces Linux by a list of messages for the tables.
type fake struct {
	*tables
	t     *testing.T
	waits []func() // for the workers
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t}
	f.tables = newTables(new(gateway.Gateway), 1, Hooks{
		IsLocal:   func(a netip.Addr) bool { return a == here },
		Quiescent: func(g func()) { f.waits = append(f.waits, g) },
	}, nil)
	return f
}

// apply applies messages as one batch.
func (f *fake) apply(messages ...rtnl.Message) {
	f.t.Helper()
	for _, m := range messages {
		require.NoError(f.t, f.handle(m))
	}
	f.commit()
}

// quiesce reports that all workers have finished their batches.
func (f *fake) quiesce() {
	for _, g := range f.waits {
		g()
	}
	f.waits = nil
	f.commit()
}

// outbound returns the SA that encrypts packets of outPolicy.
func (f *fake) outbound() (*ipsec.SA, ipsec.Error) {
	flow := gateway.FlowIPv4(echo(netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.2.0.1"), 0))
	return f.gateway.LookupOutbound(&flow)
}

// outboundSPI returns the SPI of outbound, 0 for none.
func (f *fake) outboundSPI() uint32 {
	if s, _ := f.outbound(); s != nil {
		return s.Config().SPI
	}
	return 0
}

// received returns the gateway's result for the reverse packet, decrypted by an SA or in cleartext
// (nil).
func (f *fake) received(by *ipsec.SA) ipsec.Error {
	flow := gateway.FlowIPv4(echo(netip.MustParseAddr("10.2.0.1"), netip.MustParseAddr("10.1.0.1"), 0))
	return f.gateway.CheckInbound(&flow, by)
}
