package afxdp

// Decision is the decision of the XDP program on a frame (see steer.bpf.c). Each has a counter.
type Decision uint8

const (
	ToSocket Decision = Decision(steerDecisionTO_SOCKET) // redirected to the socket of the queue
	NoSocket Decision = Decision(steerDecisionNO_SOCKET) // dropped: the queue has no socket

	// Transit decisions: dropped by a gateway, because Linux could forward them past the policies.
	TransitVLAN              Decision = Decision(steerDecisionTRANSIT_VLAN)               // tagged, and not for this host
	TransitEtherType         Decision = Decision(steerDecisionTRANSIT_ETHER_TYPE)         // MPLS
	TransitOtherMAC          Decision = Decision(steerDecisionTRANSIT_OTHER_MAC)          // not to the port's address, and not for this host
	TransitIPv4Options       Decision = Decision(steerDecisionTRANSIT_IPV4OPTIONS)        // header longer than 20 bytes, and not for this host
	TransitLinkLocal         Decision = Decision(steerDecisionTRANSIT_LINK_LOCAL)         // from fe80::/10 to elsewhere
	TransitOwnSource         Decision = Decision(steerDecisionTRANSIT_OWN_SOURCE)         // from an address given to AddLocal to elsewhere
	TransitNeighborDiscovery Decision = Decision(steerDecisionTRANSIT_NEIGHBOR_DISCOVERY) // ICMPv6 types 133 to 137 to elsewhere

	// Host traffic: passed to Linux.
	VLAN              Decision = Decision(steerDecisionVLAN)               // tagged
	EtherType         Decision = Decision(steerDecisionETHER_TYPE)         // neither IPv4 nor IPv6: ARP, LLDP, ...
	OtherMAC          Decision = Decision(steerDecisionOTHER_MAC)          // not the port's address, or a group address
	IPv4Options       Decision = Decision(steerDecisionIPV4OPTIONS)        // header longer than 20 bytes
	Multicast         Decision = Decision(steerDecisionMULTICAST)          // 224.0.0.0/4, ff00::/8
	Broadcast         Decision = Decision(steerDecisionBROADCAST)          // 255.255.255.255
	LinkLocal         Decision = Decision(steerDecisionLINK_LOCAL)         // from or to fe80::/10
	Local             Decision = Decision(steerDecisionLOCAL)              // to an address given to AddLocal
	OwnSource         Decision = Decision(steerDecisionOWN_SOURCE)         // from one
	NeighborDiscovery Decision = Decision(steerDecisionNEIGHBOR_DISCOVERY) // ICMPv6 types 133 to 137

	// NumDecisions is the number of decisions, for counters that are arrays.
	NumDecisions = int(steerDecisionDECISIONS)
)

var decisions = [NumDecisions]string{
	ToSocket: "to_socket",
	NoSocket: "no_socket",

	TransitVLAN:              "transit_vlan",
	TransitEtherType:         "transit_ether_type",
	TransitOtherMAC:          "transit_other_mac",
	TransitIPv4Options:       "transit_ipv4_options",
	TransitLinkLocal:         "transit_link_local",
	TransitOwnSource:         "transit_own_source",
	TransitNeighborDiscovery: "transit_neighbor_discovery",

	VLAN:              "vlan",
	EtherType:         "ether_type",
	OtherMAC:          "other_mac",
	IPv4Options:       "ipv4_options",
	Multicast:         "multicast",
	Broadcast:         "broadcast",
	LinkLocal:         "link_local",
	Local:             "local",
	OwnSource:         "own_source",
	NeighborDiscovery: "neighbor_discovery",
}

// String returns the name of the decision in metrics.
func (d Decision) String() string {
	if int(d) < NumDecisions {
		return decisions[d]
	}
	return "invalid"
}

// Linux reports whether the program passes frames of the decision to Linux.
func (d Decision) Linux() bool { return d >= VLAN && int(d) < NumDecisions }

// Transit reports whether a gateway drops frames of the decision, because Linux could forward them
// past the policies.
func (d Decision) Transit() bool { return d > NoSocket && d < VLAN }
