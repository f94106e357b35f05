package afxdp

// Decision is what the XDP program did with a frame, one counter each (see
// steer.bpf.c).
type Decision uint8

const (
	ToSocket Decision = Decision(steerDecisionTO_SOCKET) // given to the queue's socket
	NoSocket Decision = Decision(steerDecisionNO_SOCKET) // dropped: the queue has no socket

	// The rest went to Linux.
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
	ToSocket:          "to_socket",
	NoSocket:          "no_socket",
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

// String returns the decision's name as metrics print it.
func (d Decision) String() string {
	if int(d) < NumDecisions {
		return decisions[d]
	}
	return "invalid"
}

// Linux says whether frames of the decision go to Linux.
func (d Decision) Linux() bool { return d > NoSocket && int(d) < NumDecisions }
