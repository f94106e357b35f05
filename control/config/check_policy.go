package config

import (
	"fmt"
	"net/netip"
	"slices"
)

func (c *Config) checkPolicies() (errs Errors) {
	sas, named := c.byName()
	for i := range c.IPsec.Policies {
		p := &c.IPsec.Policies[i]
		e := &entry{config: c, key: fmt.Sprintf("ipsec.policies[%d]", i)}
		choice(e, "direction", p.Direction, directions)
		choice(e, "action", p.Action, actions)
		e.checkPrefixes(p)
		e.checkPorts(p)
		e.checkTarget(p, sas, named)
		errs = append(errs, e.errs...)
	}
	return errs
}

// byName returns the SAs by name. It is not ok if a name is missing, invalid or duplicate: the
// policies then cannot be checked against the names.
func (c *Config) byName() (sas map[string]*SA, ok bool) {
	sas, ok = map[string]*SA{}, true
	for i := range c.IPsec.SAs {
		a := &c.IPsec.SAs[i]
		_, twice := sas[a.Name]
		ok = ok && !twice && saName.MatchString(a.Name)
		sas[a.Name] = a
	}
	return sas, ok
}

func (e *entry) checkPrefixes(p *Policy) {
	for _, x := range []struct {
		field  string
		prefix netip.Prefix
	}{{"src", p.Src}, {"dst", p.Dst}} {
		switch {
		case !x.prefix.IsValid():
			e.missing(x.field, "add a prefix, 0.0.0.0/0 or ::/0 for any")
		case x.prefix != x.prefix.Masked():
			e.fail(x.field, fmt.Sprintf("%v has address bits beyond the prefix length", x.prefix), fmt.Sprintf("did you mean %v, or %v/%d?",
				x.prefix.Masked(), x.prefix.Addr(), x.prefix.Addr().BitLen()))
		}
	}
	if p.Src.IsValid() && p.Dst.IsValid() && p.Src.Addr().Is4() != p.Dst.Addr().Is4() {
		e.fail("dst", fmt.Sprintf("address families of %v and the source %v differ", p.Dst, p.Src), "write two IPv4 or two IPv6 prefixes")
	}
}

func (e *entry) checkPorts(p *Policy) {
	if p.Src.IsValid() {
		switch is4 := p.Src.Addr().Is4(); {
		case p.Protocol == protoICMP && !is4:
			e.fail("protocol", "icmp is an IPv4 protocol", "write icmpv6")
		case p.Protocol == protoICMPv6 && is4:
			e.fail("protocol", "icmpv6 is an IPv6 protocol", "write icmp")
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
			e.fail(x.field, fmt.Sprintf("%d-%d ends before it begins", x.ports.First, x.ports.Last), "write the lower port first")
		case x.ports != AnyPort && !hasPorts:
			e.fail(x.field, "ports need a protocol with ports", "add one such as `protocol: tcp`, or write any")
		}
	}
}

// checkTarget checks the SA of a policy.
func (e *entry) checkTarget(p *Policy, sas map[string]*SA, named bool) {
	a, known := sas[p.SA]
	switch {
	case !slices.Contains(actions, p.Action):
	case p.Action != ActionProtect && p.SA != "":
		e.fail("sa", "action: "+string(p.Action)+" takes no SA", "remove it, or write action: protect")
	case p.Action != ActionProtect:
	case p.SA == "":
		e.missing("sa", "add the name of an SA")
	case !named:
	case !known:
		e.fail("sa", fmt.Sprintf("unknown SA %q", p.SA), e.config.hintSA(p))
	case a.Direction == "" || p.Direction == "":
	case a.Direction != p.Direction:
		e.fail("sa", fmt.Sprintf("SA %q has direction: %s, the policy has direction: %s", p.SA, a.Direction, p.Direction), e.config.hintSA(p))
	case a.Mode == SATransport && a.Src.IsValid() && p.Src.IsValid() && a.Src.Is4() != p.Src.Addr().Is4():
		e.fail("sa", fmt.Sprintf("address families of the policy and of transport mode SA %q to %v differ", p.SA, a.Dst),
			"change the prefixes, or use tunnel mode")
	}
}

// hintSA suggests SAs for a policy.
func (c *Config) hintSA(p *Policy) string {
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
		return fmt.Sprintf("add an SA with direction: %s below `sas:`", p.Direction)
	case len(names) > most:
		return fmt.Sprintf("write an SA with direction: %s, such as %s", p.Direction, alternatives(names[:most]))
	}
	return fmt.Sprintf("write an SA with direction: %s: %s", p.Direction, alternatives(names))
}
