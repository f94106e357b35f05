package lab

import (
	"fmt"
	"net/netip"
)

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

// Topology is a client and a server with default routes via the router between them, in which
// Linux's own forwarding is off: a packet that crosses proves the dataplane.
type Topology struct {
	Network
	Client, Router, Server *Namespace
}

// NewTopology builds the three namespaces and the two veth pairs.
func NewTopology(opts VethOptions) (*Topology, error) {
	n, err := Build(opts, fmt.Sprintf(`
client client0 %v %v -- router lan0 %v %v
server server0 %v %v -- router wan0 %v %v
client route default %v
client route default %v
server route default %v
server route default %v`, Client4, Client6, LAN4, LAN6, Server4, Server6, WAN4, WAN6, LAN4.Addr(), LAN6.Addr(), WAN4.Addr(), WAN6.Addr()))
	if err != nil {
		return nil, err
	}
	return &Topology{n, n["client"], n["router"], n["server"]}, nil
}

// Forwarding switches Linux's own forwarding in the router.
func (t *Topology) Forwarding(on bool) error { return t.Router.Forwarding(on) }
