package config

import "slices"

// Differs names the first part, but for IPsec, in which b is another configuration
// than a, "" if there is none.
func (a *Config) Differs(b *Config) string {
	for _, part := range []struct {
		name string
		same bool
	}{
		{"ports", slices.Equal(a.Ports, b.Ports)}, {"engine", a.Engine == b.Engine}, {"workers", a.Workers == b.Workers},
		{"batch", a.Batch == b.Batch}, {"metrics", a.Metrics == b.Metrics}, {"control", a.Control == b.Control},
		{"napi", a.NAPI == b.NAPI}, {"busy_poll", a.BusyPoll == b.BusyPoll}, {"checksum", a.Checksum == b.Checksum},
		{"icmp", a.ICMP == b.ICMP},
		{"ipsec.source", a.IPsec.Source == b.IPsec.Source}, {"ipsec.state", a.IPsec.State == b.IPsec.State},
		{"ipsec.fragment", a.IPsec.Fragment == b.IPsec.Fragment}, {"ipsec.mss_clamp", a.IPsec.MSSClamp == b.IPsec.MSSClamp},
	} {
		if !part.same {
			return part.name
		}
	}
	return ""
}

// Protects reports whether the router is to be an IPsec gateway.
func (c *Config) Protects() bool {
	return len(c.IPsec.SAs)+len(c.IPsec.Policies) > 0 || c.IPsec.Source == SourceXFRM
}
