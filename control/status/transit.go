package status

// transitDrop explains why the XDP program of a gateway drops frames.
type transitDrop struct{ reason, sentence, hint string }

const elsewhere = "a gateway gives Linux only what is for this host, because Linux might forward the rest past the policies: "

// transitDrops are in the order in which `show drops` has them.
var transitDrops = []transitDrop{
	{"transit_vlan", elsewhere + "the frame has a VLAN tag", "give the VLAN a port of its own, untagged at the switch, or route it by another host"},
	{"transit_ether_type", elsewhere + "the frame carries MPLS", "turn MPLS off towards this port"},
	{"transit_other_mac", elsewhere + "the frame is to another MAC address than the port's, or the port is in a VRF", "a neighbour's ARP entry may be stale, or the switch floods; addresses of macvlan interfaces on a port are reached only for this host itself"},
	{"transit_ipv4_options", elsewhere + "the packet has IPv4 options", "send it without; options to this host's own addresses pass"},
	{"transit_link_local", elsewhere + "the packet is from a link-local address, which is not routed (RFC 4291 2.5.6)", "give the sender an address that is routed"},
	{"transit_own_source", elsewhere + "the packet is from an address of this host", "find who sends by an address of this host: it is spoofed, or configured twice"},
	{"transit_neighbor_discovery", elsewhere + "the packet is of neighbour discovery and to another host, as for proxy_ndp", "neighbour discovery does not cross routers (RFC 4861 3.1)"},
}
