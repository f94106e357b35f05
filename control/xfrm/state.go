package xfrm

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/ipsec"
)

// stateID identifies a state.
type stateID struct {
	dst      netip.Addr
	spi      uint32
	protocol uint8
	mark     mark
}

type mark struct{ value, mask uint32 }

// params are the parameters of a state that determine its SA.
type params struct {
	src       netip.Addr
	reqid     uint32
	ifID      uint32 // of an XFRM interface, 0 for none
	mode      uint8
	direction uint8 // XFRM_SA_DIR_..., since Linux 6.10; 0: unknown
	suite     string
	keys      uint64 // see fingerprint
	esn       bool
	window    int
	encap     ipsec.Encap // zero for none
	df        ipsec.DFPolicy
	limits    ipsec.Lifetime // of the whole life of the state
	bitmap    uint32         // words of the long replay state; 0: short form
	refusal   string         // reason why it is unsupported
}

// state is an XFRM state.
type state struct {
	id stateID
	params
	larval       bool // SPI allocated, no keys yet
	key, authKey []byte
	nonceID      uint64    // see nonces
	sequence     [2]uint64 // in Linux, by ipsec.Direction: last sent, highest received
	bytes        uint64
	packets      uint64
	added, used  uint64 // Unix times of the installation and the first packet; 0 for none
}

// wipe wipes the keys.
func (s *state) wipe() {
	clear(s.key)
	clear(s.authKey)
	s.key, s.authKey = nil, nil
}

// refuse marks a state as unsupported. The first reason is kept.
func (p *params) refuse(format string, a ...any) {
	if p.refusal == "" {
		p.refusal = fmt.Sprintf(format, a...)
	}
}

// parseState parses the state in a message.
func parseState(msg rtnl.Message) (*state, error) {
	size := sizeofSA
	switch msg.Type {
	case msgExpire:
		size = sizeofExpire
	case msgDelSA:
		size = sizeofSAID
	}
	h, a := rtnl.Header(msg.Data, size)
	if msg.Type == msgDelSA && a.Next() { // the first attribute has the header of other messages
		if h = nil; a.Kind == attrSA {
			h, _ = want(&a, sizeofSA)
		}
	}
	if len(h) < sizeofSA {
		return nil, fmt.Errorf("XFRM state: header: %w", rtnl.ErrTruncated)
	}
	s, err := readState(h, &a)
	if err != nil {
		return nil, fmt.Errorf("XFRM state: %w", err)
	}
	return s, nil
}

// readState parses struct xfrm_usersa_info and its attributes.
func readState(h []byte, a *rtnl.Attrs) (*state, error) {
	family := host.Uint16(h[212:])
	if !known(family) {
		return nil, fmt.Errorf("address family %d", family)
	}
	s := &state{
		id: stateID{
			dst:      address(h[56:], family),
			spi:      binary.BigEndian.Uint32(h[72:]),
			protocol: h[76],
		},
		params: params{
			src:    address(h[80:], family),
			limits: lifetime(h[96:]),
			reqid:  host.Uint32(h[208:]),
			mode:   h[214],
			window: int(h[215]),
			esn:    h[216]&flagESN != 0,
		},
		bytes:   host.Uint64(h[160:]),
		packets: host.Uint64(h[168:]),
		added:   host.Uint64(h[176:]),
		used:    host.Uint64(h[184:]),
	}
	s.check(h)
	var algs algorithms
	for a.Next() {
		s.attribute(a, &algs)
	}
	if a.Err != nil {
		s.wipe()
		return nil, fmt.Errorf("SPI %#x to %v: %w", s.id.spi, s.id.dst, a.Err)
	}
	if s.larval = algs.none() && s.id.protocol == unix.IPPROTO_ESP; !s.larval {
		s.chooseSuite(&algs)
	}
	return s, nil
}

// Flags and extra flags of states.
const (
	flagNoECN      = 1
	flagDecapDSCP  = 2
	flagNoPMTUDisc = 4
	flagESN        = 128

	extraDontEncapDSCP = 1

	modeTransport = 0
	modeTunnel    = 1
)

// check refuses unsupported fields of the header.
func (s *state) check(h []byte) {
	flags := h[216]
	if s.id.protocol != unix.IPPROTO_ESP {
		s.refuse("protocol %d, only ESP (%d) is supported", s.id.protocol, unix.IPPROTO_ESP)
	}
	if s.mode != modeTunnel && s.mode != modeTransport {
		s.refuse("mode %d, only tunnel (%d) and transport (%d) are supported", s.mode, modeTunnel, modeTransport)
	}
	if flags&flagNoECN != 0 {
		s.refuse("flag noecn is not supported")
	}
	if flags&flagDecapDSCP != 0 {
		s.refuse("flag decap-dscp is not supported")
	}
	if flags&flagNoPMTUDisc != 0 {
		s.df = ipsec.ClearDF
	}
	if s.src.IsUnspecified() || s.id.dst.IsUnspecified() {
		s.refuse("wildcard outer address")
	}
	// Linux sets the family of a state without a selector, and strongSwan the addresses of one
	// in transport mode.
	f := readSelector(h)
	whole := func(p netip.Prefix, own netip.Addr) bool {
		return p.Bits() == 0 || s.mode == modeTransport && p.IsSingleIP() && p.Addr() == own
	}
	if f.restricted() || f.family != unix.AF_UNSPEC && !(whole(f.src, s.src) && whole(f.dst, s.id.dst)) {
		s.refuse("has a selector, only policies may select packets")
	}
}

// attribute parses one attribute.
func (s *state) attribute(a *rtnl.Attrs, algs *algorithms) {
	switch a.Kind {
	case attrAlgAEAD, attrAlgCrypt, attrAlgAuthTrunc:
		s.algorithm(a, algs)
	case attrAlgComp:
		s.refuse("uses compression")
	case attrEncap:
		if v, ok := want(a, sizeofEncap); ok {
			s.encap = ipsec.Encap{SrcPort: binary.BigEndian.Uint16(v[2:]), DstPort: binary.BigEndian.Uint16(v[4:])}
			if kind := host.Uint16(v); kind != encapESPinUDP {
				s.refuse("encapsulation type %d, only ESP in UDP (%d) is supported", kind, encapESPinUDP)
			}
		}
	case attrReplay:
		if v, ok := want(a, sizeofReplay); ok {
			s.sequence = [2]uint64{uint64(host.Uint32(v)), uint64(host.Uint32(v[4:]))}
		}
	case attrReplayESN:
		if v, ok := want(a, sizeofReplayESN); ok {
			s.bitmap = host.Uint32(v)
			whole := func(low, high int) uint64 { return uint64(host.Uint32(v[high:]))<<32 | uint64(host.Uint32(v[low:])) }
			s.sequence = [2]uint64{whole(4, 12), whole(8, 16)}
			s.window = int(min(host.Uint32(v[20:]), math.MaxInt32))
		}
	case attrMark:
		if v, ok := want(a, 8); ok {
			s.id.mark = mark{host.Uint32(v), host.Uint32(v[4:])}
			if s.id.mark != (mark{}) {
				s.refuse("has a mark")
			}
		}
	case attrExtraFlags:
		if a.Uint32()&extraDontEncapDSCP != 0 {
			s.refuse("extra-flag dont-encap-dscp is not supported")
		}
	case attrDirection:
		if v, ok := want(a, 1); ok {
			s.direction = v[0]
		}
	case attrIfID:
		if s.ifID = a.Uint32(); s.ifID != 0 && s.mode == modeTransport {
			s.refuse("transport mode on an XFRM interface (if_id %d)", s.ifID)
		}
	case attrSetMark:
		if a.Uint32() != 0 {
			s.refuse("output-mark is not supported")
		}
	case attrTFCPad:
		if a.Uint32() != 0 {
			s.refuse("tfcpad is not supported")
		}
	case attrSecCtx:
		s.refuse("has a security context")
	case attrCoAddr:
		s.refuse("has a care-of address")
	case attrOffloadDev:
		s.refuse("is offloaded to a device")
	}
}

// lifetime parses struct xfrm_lifetime_cfg. Of the ages only the hard one since installation is
// used, as a safeguard: Linux enforces ages with events.
func lifetime(b []byte) (l ipsec.Lifetime) {
	limit := func(at int) uint64 {
		switch n := host.Uint64(b[at:]); n {
		case infinite:
			return 0 // no limit
		case 0:
			return 1
		default:
			return n
		}
	}
	l.Hard = ipsec.Limits{Bytes: limit(8), Packets: limit(24)}
	l.Soft = ipsec.Limits{Bytes: limit(0), Packets: limit(16)}
	const longest = math.MaxInt64 / int64(time.Second)
	if s := host.Uint64(b[40:]); s < uint64(longest)/2 {
		l.Hard.Age = time.Duration(s) * time.Second
	}
	return l
}
