package status

// transitDrop describes a drop reason of the XDP program of a gateway.
type transitDrop struct{ reason, description, hint string }

// onlyLocal begins the descriptions of transitDrops.
const onlyLocal = "a gateway passes Linux only packets for this host, because Linux could forward others past the IPsec policies: "

// transitDrops lists the reasons in the order of `show drops`.
var transitDrops = []transitDrop{
	{"transit_vlan", onlyLocal + "the frame has a VLAN tag that no VLAN interface of the port has", "create the VLAN interface of the port (ip link add link PORT name PORT.7 type vlan id 7), which makes the VLAN a port, outside VRFs, or route it by another host"},
	{"transit_ether_type", onlyLocal + "the frame carries MPLS", "disable MPLS towards this port"},
	{"transit_other_mac", onlyLocal + "the destination MAC address is not the port's, or the port of a gateway is in a VRF", "check for a stale ARP entry on a neighbor, or a flooding switch; a macvlan interface on a port works for this host only"},
	{"transit_ipv4_options", onlyLocal + "the packet has IPv4 options", "send packets without options; only those to addresses of this host may have options"},
	{"transit_link_local", onlyLocal + "the source address is link-local, which is not routed (RFC 4291 2.5.6)", "give the sender a routable address"},
	{"transit_own_source", onlyLocal + "the source address belongs to this host", "find the sender: the address is spoofed, or configured twice"},
	{"transit_neighbor_discovery", onlyLocal + "the packet is neighbor discovery for another host, as with proxy_ndp", "disable proxy_ndp: neighbor discovery does not cross routers (RFC 4861 3.1)"},
}
