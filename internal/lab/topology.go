package lab

import "net/netip"

// The links and addresses of a Topology.
//
//	client                  router                  server
//	client0 ──────────── lan0    wan0 ──────────── server0
//	10.7.0.2      10.7.0.1/24    10.8.0.1/24      10.8.0.2
//	fd07::2        fd07::1/64    fd08::1/64        fd08::2
const (
	ClientLink = "client0"
	LAN        = "lan0"
	WAN        = "wan0"
	ServerLink = "server0"
)

var (
	Client4 = netip.MustParsePrefix("10.7.0.2/24")
	LAN4    = netip.MustParsePrefix("10.7.0.1/24")
	WAN4    = netip.MustParsePrefix("10.8.0.1/24")
	Server4 = netip.MustParsePrefix("10.8.0.2/24")

	Client6 = netip.MustParsePrefix("fd07::2/64")
	LAN6    = netip.MustParsePrefix("fd07::1/64")
	WAN6    = netip.MustParsePrefix("fd08::1/64")
	Server6 = netip.MustParsePrefix("fd08::2/64")
)

// Topology is a client and a server, each in a namespace of its own with its
// default routes by way of the router between them, in which Linux's own
// forwarding is off.
type Topology struct {
	Client, Router, Server *Namespace
}

// NewTopology builds the three namespaces and the two veth pairs.
func NewTopology(opts VethOptions) (*Topology, error) {
	t := &Topology{}
	if err := t.build(opts); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *Topology) build(opts VethOptions) (err error) {
	for _, n := range []struct {
		ns   **Namespace
		name string
	}{{&t.Client, "client"}, {&t.Router, "router"}, {&t.Server, "server"}} {
		if *n.ns, err = New(n.name); err != nil {
			return err
		}
	}
	if err := t.Forwarding(false); err != nil {
		return err
	}
	if err := Veth(End{Namespace: t.Client, Name: ClientLink}, End{Namespace: t.Router, Name: LAN}, opts); err != nil {
		return err
	}
	if err := Veth(End{Namespace: t.Server, Name: ServerLink}, End{Namespace: t.Router, Name: WAN}, opts); err != nil {
		return err
	}
	for _, a := range []struct {
		ns   *Namespace
		link string
		addr netip.Prefix
	}{
		{t.Client, ClientLink, Client4}, {t.Client, ClientLink, Client6},
		{t.Router, LAN, LAN4}, {t.Router, LAN, LAN6},
		{t.Router, WAN, WAN4}, {t.Router, WAN, WAN6},
		{t.Server, ServerLink, Server4}, {t.Server, ServerLink, Server6},
	} {
		if err := a.ns.AddAddr(a.link, a.addr); err != nil {
			return err
		}
	}
	for _, r := range []struct {
		ns  *Namespace
		via netip.Prefix
	}{{t.Client, LAN4}, {t.Client, LAN6}, {t.Server, WAN4}, {t.Server, WAN6}} {
		all := netip.PrefixFrom(r.via.Addr(), 0)
		if err := r.ns.AddRoute(all, r.via.Addr()); err != nil {
			return err
		}
	}
	return nil
}

// Forwarding switches Linux's own forwarding in the router, for IPv4 and IPv6.
// A new topology has it off, so that a packet that crosses proves the dataplane.
func (t *Topology) Forwarding(on bool) error {
	value := "0"
	if on {
		value = "1"
	}
	if err := t.Router.Sysctl("net.ipv4.ip_forward", value); err != nil {
		return err
	}
	return t.Router.Sysctl("net.ipv6.conf.all.forwarding", value)
}

// Close lets go of the namespaces; their links vanish with them.
func (t *Topology) Close() {
	for _, ns := range []*Namespace{t.Client, t.Router, t.Server} {
		if ns != nil {
			ns.Close()
		}
	}
}
