package xfrm

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/ipsec"
	ipsecpolicy "github.com/warproute/warproute/ipsec/policy"
)

// policy is an XFRM policy.
type policy struct {
	index     uint32
	priority  uint32 // lowest first
	age       uint64 // oldest first within a priority
	socket    bool   // of a local socket
	toHost    bool   // for packets to the router (in), not forwarded ones (fwd)
	direction ipsec.Direction
	ipsecpolicy.Policy
	protects tunnelID // tunnel, for action Protect
	spi      uint32   // preferred SA of the tunnel; 0: none
	ifID     uint32   // of an XFRM interface, 0 for none
	refusal  string   // reason why the policy is unsupported and drops all packets
}

// tunnelID identifies a tunnel: the fields that a template and its states share.
type tunnelID struct {
	src, dst netip.Addr
	mode     uint8
	reqid    uint32
	ifID     uint32 // of an XFRM interface, 0 for none
}

func (b tunnelID) String() string {
	mode := "tunnel"
	if b.mode == modeTransport {
		mode = "transport"
	}
	text := fmt.Sprintf("%v to %v esp %s reqid %d", b.src, b.dst, mode, b.reqid)
	if b.ifID != 0 {
		text += fmt.Sprintf(" if_id %d", b.ifID)
	}
	return text
}

const (
	dirIn = iota
	dirOut
	dirFwd
	dirSockets // and beyond
)

const actionAllow = 0

// parsePolicy parses a message that starts with struct xfrm_userpolicy_info.
func parsePolicy(data []byte) (*policy, error) {
	h, a := rtnl.Header(data, sizeofPolicy)
	if h == nil {
		return nil, fmt.Errorf("XFRM policy: %w", a.Err)
	}
	f := readSelector(h)
	if !known(f.family) {
		return nil, fmt.Errorf("XFRM policy of address family %d", f.family)
	}
	if !f.src.IsValid() || !f.dst.IsValid() {
		return nil, fmt.Errorf("XFRM policy with prefixes of %d and %d bits in address family %d", h[43], h[42], f.family)
	}
	dir := h[160]
	p := &policy{
		index:     host.Uint32(h[156:]),
		priority:  host.Uint32(h[152:]),
		socket:    dir >= dirSockets,
		toHost:    dir == dirIn,
		direction: ipsec.In,
		Policy:    ipsecpolicy.Policy{Src: f.src, Dst: f.dst, Protocol: f.protocol, Action: ipsecpolicy.Bypass},
	}
	if dir == dirOut {
		p.direction = ipsec.Out
	}
	if h[161] != actionAllow {
		p.Action = ipsecpolicy.Discard
	}
	p.parseSelector(&f)
	for a.Next() {
		p.attribute(&a)
	}
	if p.protects.ifID = p.ifID; p.ifID != 0 && p.Action == ipsecpolicy.Protect && p.protects.mode == modeTransport {
		p.refuse("is for transport mode on an XFRM interface (if_id %d)", p.ifID)
	}
	if p.refusal != "" {
		p.Action = ipsecpolicy.Refuse
	}
	if a.Err != nil {
		return nil, fmt.Errorf("XFRM policy %d: %w", p.index, a.Err)
	}
	return p, nil
}

// refuse marks a policy as unsupported. The first reason is kept.
func (p *policy) refuse(format string, a ...any) {
	if p.refusal == "" {
		p.refusal = fmt.Sprintf(format, a...)
	}
}

// parseSelector parses the selector beyond addresses and protocol. Unsupported fields refuse the
// policy without narrowing it.
func (p *policy) parseSelector(f *selector) {
	var errs [2]error
	p.SrcPorts, errs[0] = f.sport.portRange()
	p.DstPorts, errs[1] = f.dport.portRange()
	for _, err := range errs {
		if err != nil {
			p.refuse("unsupported selector: %v", err)
		}
	}
	if !hasPorts(f.protocol) && f.sport.mask|f.dport.mask != 0 {
		p.SrcPorts, p.DstPorts = ipsecpolicy.PortRange{}, ipsecpolicy.PortRange{}
		p.refuse("selector has ports or a key, which are unsupported for protocol %d", f.protocol)
	}
	if f.ifindex != 0 {
		p.refuse("selector has an interface")
	}
	if f.user != 0 {
		p.refuse("selector has a user")
	}
}

// attribute parses one attribute.
func (p *policy) attribute(a *rtnl.Attrs) {
	switch a.Kind {
	case attrTmpl:
		if len(a.Value) == 0 {
			return // no template
		}
		if v, ok := want(a, sizeofTmpl); ok {
			p.template(v)
		}
	case attrMark:
		if v, ok := want(a, 8); ok && (host.Uint32(v)|host.Uint32(v[4:])) != 0 {
			p.refuse("has a mark")
		}
	case attrIfID:
		p.ifID = a.Uint32()
	case attrPolicyType:
		if v, ok := want(a, 1); ok && v[0] != policyTypeMain {
			p.refuse("is a sub policy")
		}
	case attrSecCtx:
		p.refuse("has a security context")
	case attrOffloadDev:
		p.refuse("is offloaded to a device")
	}
}

// template parses the array of struct xfrm_user_tmpl.
func (p *policy) template(v []byte) {
	if n := len(v) / sizeofTmpl; n > 1 {
		p.refuse("has %d templates, only one is supported", n)
		return
	}
	family := host.Uint16(v[24:])
	if !known(family) {
		p.refuse("template has address family %d", family)
		return
	}
	b := tunnelID{
		dst:   address(v, family),
		src:   address(v[28:], family),
		reqid: host.Uint32(v[44:]),
		mode:  v[48],
	}
	switch {
	case v[20] != unix.IPPROTO_ESP:
		p.refuse("template has protocol %d, only ESP (%d) is supported", v[20], unix.IPPROTO_ESP)
	case b.mode != modeTunnel && b.mode != modeTransport:
		p.refuse("template has mode %d, only tunnel (%d) and transport (%d) are supported", b.mode, modeTunnel, modeTransport)
	case v[50] != 0:
		p.refuse("template is optional")
	}
	// In transport mode the outer addresses are the packet's, so the policy must be for one
	// pair of hosts.
	for _, x := range []struct {
		outer *netip.Addr
		inner netip.Prefix
	}{{&b.src, p.Src}, {&b.dst, p.Dst}} {
		if x.outer.IsUnspecified() {
			if b.mode != modeTransport || !x.inner.IsSingleIP() {
				p.refuse("template has a wildcard address")
			}
			*x.outer = x.inner.Addr()
		}
	}
	if p.Action == ipsecpolicy.Bypass { // not blocked
		p.Action, p.protects, p.spi = ipsecpolicy.Protect, b, binary.BigEndian.Uint32(v[16:])
	}
}

// parseDeletedPolicy returns the index in a deletion message. Only the attribute always has it.
func parseDeletedPolicy(data []byte) (index uint32, err error) {
	_, a := rtnl.Header(data, sizeofPolicyID)
	for a.Next() {
		if a.Kind == attrPolicy {
			if v, ok := want(&a, sizeofPolicy); ok {
				return host.Uint32(v[156:]), nil
			}
		}
	}
	if a.Err != nil {
		return 0, fmt.Errorf("deleted XFRM policy: %w", a.Err)
	}
	return 0, fmt.Errorf("deleted XFRM policy without index: %w", rtnl.ErrTruncated)
}
