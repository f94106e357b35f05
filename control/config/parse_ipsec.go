package config

import "github.com/goccy/go-yaml/ast"

// Defaults of an SA.
const (
	// defaultReplayWindow, in packets, accepts reordering by several chunks. The 64 of RFC 4303
	// does not.
	defaultReplayWindow = 1024
	portNATT            = 4500
)

// ipsec returns the reader of the section ipsec.
func (r *reader) ipsec() value {
	c := &r.config.IPsec
	return mapping(
		field{"source", oneOf(&c.Source, sources...)},
		field{"state", text(&c.State)},
		field{"mss_clamp", boolean(&c.MSSClamp)},
		field{"fragment", oneOf(&c.Fragment, fragments...)},
		field{"icmp", oneOf(&c.ICMP, icmpErrors...)},
		field{"path_mtu", oneOf(&c.PathMTU, pathMTUs...)},
		field{"interface", text(&c.Interface)},
		field{"linux_forwarding", oneOf(&c.LinuxForwarding, linuxForwardings...)},
		field{"sas", list(func(int) value {
			c.SAs = append(c.SAs, SA{Mode: SATunnel, ReplayWindow: defaultReplayWindow, DF: DFCopy})
			return sa(&c.SAs[len(c.SAs)-1])
		})},
		field{"policies", list(func(int) value {
			c.Policies = append(c.Policies, Policy{SrcPorts: AnyPort, DstPorts: AnyPort})
			p := &c.Policies[len(c.Policies)-1]
			return mapping(
				field{"direction", oneOf(&p.Direction, directions...)},
				field{"src", prefix(&p.Src)},
				field{"dst", prefix(&p.Dst)},
				field{"protocol", protocol(&p.Protocol)},
				field{"sport", ports(&p.SrcPorts)},
				field{"dport", ports(&p.DstPorts)},
				field{"action", oneOf(&p.Action, actions...)},
				field{"sa", text(&p.SA)},
			)
		})},
	)
}

// sa returns the reader of an SA.
func sa(a *SA) value {
	return mapping(
		field{"name", text(&a.Name)},
		field{"spi", integer(&a.SPI, "0x100")},
		field{"direction", oneOf(&a.Direction, directions...)},
		field{"mode", oneOf(&a.Mode, saModes...)},
		field{"src", address(&a.Src)},
		field{"dst", address(&a.Dst)},
		field{"suite", oneOf(&a.Suite, suites...)},
		field{"key", hexKey(&a.Key)},
		field{"key_file", text(&a.KeyFile)},
		field{"auth_key", hexKey(&a.AuthKey)},
		field{"auth_key_file", text(&a.AuthKeyFile)},
		field{"esn", boolean(&a.ESN)},
		field{"replay_window", integer(&a.ReplayWindow, "1024")},
		field{"encap", func(r *reader, key string, n ast.Node) {
			a.Encap = Encap{portNATT, portNATT}
			mapping(
				field{"sport", integer(&a.Encap.SrcPort, "4500")},
				field{"dport", integer(&a.Encap.DstPort, "4500")},
			)(r, key, n)
		}},
		field{"df", oneOf(&a.DF, dfs...)},
		field{"lifetime", mapping(append(limits(&a.Lifetime.Hard),
			field{"soft", mapping(limits(&a.Lifetime.Soft)...)})...)},
	)
}

// limits returns the fields of limits.
func limits(l *Limits) []field {
	return []field{
		{"packets", integer(&l.Packets, "0")},
		{"bytes", integer(&l.Bytes, "0")},
		{"seconds", integer(&l.Seconds, "0")},
	}
}
