package differential

import (
	"net"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// Ports is kinds of interfaces that a router has to its sides.
type Ports struct {
	Name string
	// Kinds is the number of kinds, each of which is one side's at least.
	Kinds int
	// Modules are the kernel modules that they need.
	Modules []string
	// configured are the ports of the router's configuration.
	configured []string
	// exits is whether routes over wan and nar leave through Linux, whose forwarding is therefore on.
	exits bool
	// build creates the interfaces lan, wan and nar of the router, which are up.
	build func(c *Contender)
	// routes returns the routes. Nil: sideRoutes.
	routes func(c *Contender) []string
	// Differences are intended differences from Linux that they add. Each must be shown by a packet.
	Differences []Difference
}

// socket is a packet socket of a host's link.
type socket struct {
	link string
	fd   int
	side int // of frames that no attachment recognizes
}

// attachment is how the frames of a side are on the wire.
type attachment struct {
	senders []int // sockets that hosts send by; a flow uses one
	backups []int // sockets that no host should send by: Linux drops the frames
	// wrap puts a frame into what the wire has, and unwrap reverses that. outer describes the rest; ok is
	// false for frames of others. Nil: frames as they are.
	wrap   func(frame []byte) []byte
	unwrap func(frame []byte) (inner []byte, outer string, ok bool)
	// pointToPoint is whether the link has no neighbors.
	pointToPoint bool
}

// Plain is links of the router themselves as ports.
var Plain = Ports{Name: "plain", Kinds: 1, configured: sides[:], build: func(c *Contender) {
	for i, s := range sides {
		c.veth(i, s, i, lab.VethOptions{})
	}
}}

// veth links hosts and router by a link of one name, and returns the number of its socket. Number i is that
// of its MAC addresses.
func (c *Contender) veth(i int, link string, side int, opts lab.VethOptions) (socketNumber int) {
	c.t.Helper()
	require.NoError(c.t, lab.Veth(lab.End{Namespace: c.hosts, Name: link, MAC: hostMAC(i)}, lab.End{Namespace: c.Router, Name: link, MAC: routerMAC(i)}, opts))
	c.sockets = append(c.sockets, socket{link: link, side: side})
	n := len(c.sockets) - 1
	c.sides[side].senders = append(c.sides[side].senders, n)
	return n
}

// trunk is veth for a link with VLANs: the router finds tags in the frames.
func (c *Contender) trunk(i int, link string, side int, opts lab.VethOptions) (socketNumber int) {
	c.t.Helper()
	n := c.veth(i, link, side, opts)
	for _, ns := range []*lab.Namespace{c.Router, c.hosts} {
		labtest.Run(c.t, ns, "ethtool", "-K", link, "txvlan", "off", "tx-vlan-stag-hw-insert", "off", "tso", "off", "gso", "off")
	}
	return n
}

// VLANs has wan as the trunk, untagged, lan in a VLAN of it, and nar in a VLAN of a service VLAN (QinQ).
var VLANs = Ports{
	Name: "VLAN and QinQ", Kinds: 2, Modules: []string{"8021q"}, configured: []string{"wan"},
	build: func(c *Contender) {
		n := c.trunk(wanSide, "wan", wanSide, lab.VethOptions{MTU: 1504}) // room for the second tag
		c.vlan(lanSide, "wan", "802.1Q", 5, n, tag{0x8100, 5})
		c.ip("link set lan mtu 1500", "link add link wan name s8 type vlan proto 802.1ad id 8", "link set s8 up")
		c.vlan(narSide, "s8", "802.1Q", 9, n, tag{0x88a8, 8}, tag{0x8100, 9})
	},
}

// vlan creates a VLAN of the router, on a link whose frames socket n has with tags.
func (c *Contender) vlan(side int, parent, protocol string, id uint16, n int, tags ...tag) {
	c.t.Helper()
	c.ip("link add link "+parent+" name "+sides[side]+" address "+routerMAC(side).String()+" type vlan proto "+protocol+" id "+itoa(id), "link set "+sides[side]+" up")
	c.sides[side].senders = []int{n}
	c.sides[side].wrap = func(frame []byte) []byte { return addTags(frame, tags) }
	c.sides[side].unwrap = func(frame []byte) ([]byte, string, bool) {
		inner, ok := removeTags(frame, tags)
		return inner, "", ok
	}
}

func virtualMAC(side int) net.HardwareAddr {
	return net.HardwareAddr{0, 0, 0x5e, 0, 1, byte(side + 1)}
}
