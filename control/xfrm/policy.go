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

// policy is an XFRM policy as Linux tells it.
type policy struct {
	index     uint32 // by which Linux knows it
	priority  uint32 // the lowest is looked at first
	age       uint64 // of equal priority, the oldest
	socket    bool   // of one socket of Linux's own
	toHost    bool   // of packets to the router itself (in), not of those that it forwards (fwd)
	direction ipsec.Direction
	ipsecpolicy.Policy
	protects bundleID // for Protect
	spi      uint32   // and by which of the bundle's associations; 0: it does not say
	ifID     uint32   // of an XFRM interface, 0 for none
	refusal  string   // why it drops all that it may be for
}

// bundleID is what a template names and states belong to.
type bundleID struct {
	src, dst netip.Addr
	mode     uint8
	reqid    uint32
}

func (b bundleID) String() string {
	mode := "tunnel"
	if b.mode == modeTransport {
		mode = "transport"
	}
	return fmt.Sprintf("%v to %v esp %s reqid %d", b.src, b.dst, mode, b.reqid)
}

const (
	dirIn = iota
	dirOut
	dirFwd
	dirSockets // and beyond
)

const actionAllow = 0

// parsePolicy reads a message that begins with struct xfrm_userpolicy_info.
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
	p.choose(&f)
	for a.Next() {
		p.attribute(&a)
	}
	if p.refusal != "" {
		p.Action = ipsecpolicy.Refuse
	}
	if a.Err != nil {
		return nil, fmt.Errorf("XFRM policy %d: %w", p.index, a.Err)
	}
	return p, nil
}

// refuse notes why a policy is refused; the first reason counts.
func (p *policy) refuse(format string, a ...any) {
	if p.refusal == "" {
		p.refusal = fmt.Sprintf(format, a...)
	}
}

// choose takes what the selector has beyond addresses and protocol. What it cannot
// take does not narrow the policy.
func (p *policy) choose(f *selector) {
	var errs [2]error
	p.SrcPorts, errs[0] = f.sport.portRange()
	p.DstPorts, errs[1] = f.dport.portRange()
	for _, err := range errs {
		if err != nil {
			p.refuse("its selector cannot be expressed: %v", err)
		}
	}
	if !hasPorts(f.protocol) && f.sport.mask|f.dport.mask != 0 {
		p.SrcPorts, p.DstPorts = ipsecpolicy.PortRange{}, ipsecpolicy.PortRange{}
		p.refuse("its selector has ports, or a key, and packets of protocol %d have none to us", f.protocol)
	}
	if f.ifindex != 0 {
		p.refuse("its selector has an interface")
	}
	if f.user != 0 {
		p.refuse("its selector has a user")
	}
}

// attribute takes one attribute.
func (p *policy) attribute(a *rtnl.Attrs) {
	switch a.Kind {
	case attrTmpl:
		if len(a.Value) == 0 {
			return // as if there were none
		}
		if v, ok := want(a, sizeofTmpl); ok {
			p.template(v)
		}
	case attrMark:
		if v, ok := want(a, 8); ok && (host.Uint32(v)|host.Uint32(v[4:])) != 0 {
			p.refuse("it is for packets with a mark")
		}
	case attrIfID:
		if id := a.Uint32(); id != 0 {
			p.ifID = id
			p.refuse("it is for an XFRM interface (if_id %d)", id)
		}
	case attrPolicyType:
		if v, ok := want(a, 1); ok && v[0] != policyTypeMain {
			p.refuse("it is a sub policy")
		}
	case attrSecCtx:
		p.refuse("it has a security context")
	case attrOffloadDev:
		p.refuse("it is offloaded to a device")
	}
}

// template takes the templates, struct xfrm_user_tmpl each.
func (p *policy) template(v []byte) {
	if n := len(v) / sizeofTmpl; n > 1 {
		p.refuse("it has %d templates: one is supported", n)
		return
	}
	family := host.Uint16(v[24:])
	if !known(family) {
		p.refuse("its template is of address family %d", family)
		return
	}
	b := bundleID{
		dst:   address(v, family),
		src:   address(v[28:], family),
		reqid: host.Uint32(v[44:]),
		mode:  v[48],
	}
	switch {
	case v[20] != unix.IPPROTO_ESP:
		p.refuse("its template's protocol is %d: only ESP (%d) is supported", v[20], unix.IPPROTO_ESP)
	case b.mode != modeTunnel && b.mode != modeTransport:
		p.refuse("its template's mode is %d: only tunnel (%d) and transport (%d) are supported", b.mode, modeTunnel, modeTransport)
	case v[50] != 0:
		p.refuse("its template is optional: packets may not choose")
	}
	// In transport mode the addresses are the packet's own. There is one bundle for the
	// policy, so it must be for one pair of hosts.
	for _, x := range []struct {
		outer *netip.Addr
		inner netip.Prefix
	}{{&b.src, p.Src}, {&b.dst, p.Dst}} {
		if x.outer.IsUnspecified() {
			if b.mode != modeTransport || !x.inner.IsSingleIP() {
				p.refuse("its template is for any address: both must be known")
			}
			*x.outer = x.inner.Addr()
		}
	}
	if p.Action == ipsecpolicy.Bypass { // not blocked
		p.Action, p.protects, p.spi = ipsecpolicy.Protect, b, binary.BigEndian.Uint32(v[16:])
	}
}

// parseDeletedPolicy returns the index in a message that a policy was deleted. The
// header has it only where it was deleted by index; the attribute does always.
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
	return 0, fmt.Errorf("deleted XFRM policy: does not say which: %w", rtnl.ErrTruncated)
}
