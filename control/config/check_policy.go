package config

import (
	"fmt"
	"net/netip"
	"slices"
)

func (c *Config) checkPolicies() (errs Errors) {
	sas, sure := c.byName()
	for i := range c.IPsec.Policies {
		p := &c.IPsec.Policies[i]
		e := &entry{config: c, key: fmt.Sprintf("ipsec.policies[%d]", i)}
		choice(e, "direction", p.Direction, directions)
		choice(e, "action", p.Action, actions)
		e.checkPrefixes(p)
		e.checkPorts(p)
		e.checkTarget(p, sas, sure)
		errs = append(errs, e.errs...)
	}
	return errs
}

// byName returns the associations by their names, and whether these are right: if not,
// which is an error already, a policy may mean one with another name.
func (c *Config) byName() (sas map[string]*SA, sure bool) {
	sas, sure = map[string]*SA{}, true
	for i := range c.IPsec.SAs {
		a := &c.IPsec.SAs[i]
		_, twice := sas[a.Name]
		sure = sure && !twice && saName.MatchString(a.Name)
		sas[a.Name] = a
	}
	return sas, sure
}

func (e *entry) checkPrefixes(p *Policy) {
	for _, x := range []struct {
		field  string
		prefix netip.Prefix
	}{{"src", p.Src}, {"dst", p.Dst}} {
		switch {
		case !x.prefix.IsValid():
			e.lacks(x.field, "add a prefix, 0.0.0.0/0 or ::/0 for any")
		case x.prefix != x.prefix.Masked():
			e.wrong(x.field, fmt.Sprintf("%v has address bits beyond its length", x.prefix), fmt.Sprintf("did you mean %v, or %v/%d?",
				x.prefix.Masked(), x.prefix.Addr(), x.prefix.Addr().BitLen()))
		}
	}
	if p.Src.IsValid() && p.Dst.IsValid() && p.Src.Addr().Is4() != p.Dst.Addr().Is4() {
		e.wrong("dst", fmt.Sprintf("%v and the source, %v, are of two families", p.Dst, p.Src), "write two prefixes of IPv4, or two of IPv6")
	}
}

func (e *entry) checkPorts(p *Policy) {
	if p.Src.IsValid() {
		switch is4 := p.Src.Addr().Is4(); {
		case p.Protocol == protoICMP && !is4:
			e.wrong("protocol", "icmp is IPv4's", "write icmpv6")
		case p.Protocol == protoICMPv6 && is4:
			e.wrong("protocol", "icmpv6 is IPv6's", "write icmp")
		}
	}
	hasPorts := false
	for _, x := range protocols {
		hasPorts = hasPorts || x.number == p.Protocol && x.ports
	}
	for _, x := range []struct {
		field string
		ports PortRange
	}{{"sport", p.SrcPorts}, {"dport", p.DstPorts}} {
		switch {
		case x.ports.First > x.ports.Last:
			e.wrong(x.field, fmt.Sprintf("%d-%d ends before it begins", x.ports.First, x.ports.Last), "write the lower one first")
		case x.ports != AnyPort && !hasPorts:
			e.wrong(x.field, "ports are of protocols that have some", "add `protocol: tcp` or another such, or write any")
		}
	}
}

// checkTarget checks what is to protect a policy's packets.
func (e *entry) checkTarget(p *Policy, sas map[string]*SA, sure bool) {
	a, known := sas[p.SA]
	switch {
	case !slices.Contains(actions, p.Action):
	case p.Action != ActionProtect && p.SA != "":
		e.wrong("sa", "an association is of no use to action: "+string(p.Action), "remove it, or write action: protect")
	case p.Action != ActionProtect:
	case p.SA == "":
		e.lacks("sa", "add the name of the association that is to protect its packets")
	case !sure:
	case !known:
		e.wrong("sa", fmt.Sprintf("there is no association %q", p.SA), e.config.mendSA(p))
	case a.Direction == "" || p.Direction == "":
	case a.Direction != p.Direction:
		e.wrong("sa", fmt.Sprintf("%q is for direction: %s, the policy for %s", p.SA, a.Direction, p.Direction), e.config.mendSA(p))
	case a.Mode == SATransport && a.Src.IsValid() && p.Src.IsValid() && a.Src.Is4() != p.Src.Addr().Is4():
		e.wrong("sa", fmt.Sprintf("in transport mode %q protects packets to %v, and the policy is of the other family", p.SA, a.Dst),
			"change its prefixes, or have a tunnel")
	}
}

// mendSA proposes an association for a policy.
func (c *Config) mendSA(p *Policy) string {
	var names []string
	for _, a := range c.IPsec.SAs {
		if a.Direction == p.Direction {
			names = append(names, a.Name)
		}
	}
	const most = 8
	switch near := nearest(p.SA, names); {
	case near != "":
		return fmt.Sprintf("did you mean %q?", near)
	case len(names) == 0:
		return fmt.Sprintf("add one below `sas:`, of direction: %s", p.Direction)
	case len(names) > most:
		return fmt.Sprintf("name one of direction: %s, such as %s", p.Direction, alternatives(names[:most]))
	}
	return fmt.Sprintf("name one of direction: %s: %s", p.Direction, alternatives(names))
}
