package batch

// Reason says why a packet was dropped. Each has one counter per port
// (dropped_packets_total{reason,port}), a name, a description and a hint.
type Reason uint8

const (
	Unprocessed        Reason = iota
	TooShort                  // frame or header ends early
	EtherType                 // neither IPv4 nor IPv6
	IPVersion                 // version does not match the EtherType
	HeaderLength              // IPv4 IHL below 5 or beyond the packet
	BadLength                 // total or payload length beyond the frame
	BadChecksum               // IPv4 header checksum
	IPOptions                 // IPv4 options, which Linux handles
	TTLExpired                // TTL or hop limit is 0 or 1
	SourceMartian             // RFC 1812 5.3.7, RFC 4291
	DestMartian               //
	FragmentOverlap           // fragment offset 1 of TCP, RFC 3128
	RoutingHeader             // IPv6 type 0 routing header, RFC 5095
	ExtensionHeaders          // chain too long or broken
	NoRoute                   //
	Blackhole                 // route types of Linux
	Unreachable               //
	Prohibit                  //
	LocalDelivery             // address of this host, added after the packet passed XDP
	NoPort                    // route leaves by an interface that is not a port
	PortDown                  //
	MTUExceeded               //
	NeighborUnresolved        // no answer in time
	NeighborQueueFull         // queue of unresolved neighbors full
	TxFull                    // egress ring stayed full
	Stopping                  // still queued when the router stopped
	EngineFailed              // the engine failed before it returned the packet

	// IPsec errors, in the order and by the names of package ipsec.
	XfrmInHdrError
	XfrmInNoStates
	XfrmInStateInvalid
	XfrmInStateExpired
	XfrmInStateDirError
	XfrmInStateMismatch
	XfrmInStateSeqError
	XfrmInStateProtoError
	XfrmInStateModeError
	XfrmInTmplMismatch
	XfrmInNoPols
	XfrmInPolBlock
	XfrmInBufferError
	XfrmInDummy
	XfrmInECNError
	XfrmOutNoStates
	XfrmOutStateInvalid
	XfrmOutStateExpired
	XfrmOutStateDirError
	XfrmOutStateSeqError
	XfrmOutStateProtoError
	XfrmOutStateModeError
	XfrmOutPolBlock
	XfrmOutBundleGenError
	XfrmOutError

	ReversePath      // no route leads back to the source, RFC 3704
	FragmentsMissing // reassembly failed; from an engine: the worker must reassemble the packet

	XfrmPolicyRefused // an unsupported XFRM policy matches
	GPUBadResult      // a GPU returned an invalid result or did not encrypt the packet
	LaneFull          // no room in the queue of the packet's lane
	XfrmOutNoPols     // route over an XFRM interface that has no policy for the packet
	HostLimit         // the worker's time for packets to Linux was used up
	HostFull          // Linux did not accept the packet
	VLANUnknown       // the VLAN tag is of no VLAN interface
	NoTable           // the ingress port is in a VRF whose table the router does not have
	numReasons
)

// NumReasons is the number of reasons, for counters that are arrays.
const NumReasons = int(numReasons)

var reasons = [NumReasons]struct{ name, description string }{
	Unprocessed:        {"unprocessed", "no engine decided on the packet"},
	TooShort:           {"too_short", "the frame ends before its headers do"},
	EtherType:          {"ether_type", "the frame carries neither IPv4 nor IPv6"},
	IPVersion:          {"ip_version", "the IP version does not match the frame's EtherType"},
	HeaderLength:       {"header_length", "the IPv4 header length is below 20 bytes or beyond the packet"},
	BadLength:          {"bad_length", "the IP length field reaches beyond the frame"},
	BadChecksum:        {"bad_checksum", "the IPv4 header checksum is wrong"},
	IPOptions:          {"ip_options", "the packet has IPv4 options, which only Linux handles"},
	TTLExpired:         {"ttl_expired", "the TTL or hop limit expired at this router"},
	SourceMartian:      {"source_martian", "no host may send from this source address (RFC 1812 5.3.7, RFC 4291)"},
	DestMartian:        {"destination_martian", "this destination address is never forwarded (RFC 1812 5.3.7, RFC 4291)"},
	FragmentOverlap:    {"fragment_overlap", "fragments overlap or contradict each other (RFC 5722), or one of TCP would overwrite the header (RFC 3128)"},
	RoutingHeader:      {"routing_header", "IPv6 type 0 routing headers are refused (RFC 5095)"},
	ExtensionHeaders:   {"extension_headers", "the IPv6 extension header chain is broken or too long"},
	NoRoute:            {"no_route", "no route covers the destination"},
	Blackhole:          {"blackhole", "a blackhole route covers the destination"},
	Unreachable:        {"unreachable", "an unreachable route covers the destination"},
	Prohibit:           {"prohibit", "a prohibit route covers the destination"},
	LocalDelivery:      {"local_delivery", "the destination became an address of this host after the packet passed XDP; local prefixes are not supported"},
	NoPort:             {"no_port", "the route leaves by an interface that is not a port of this router"},
	PortDown:           {"port_down", "the egress port is down"},
	MTUExceeded:        {"mtu_exceeded", "the packet is larger than the MTU of its route or egress port"},
	NeighborUnresolved: {"neighbor_unresolved", "the next hop's MAC address was not resolved in time"},
	NeighborQueueFull:  {"neighbor_queue_full", "the queue of packets for unresolved neighbors is full"},
	TxFull:             {"tx_full", "the egress port's transmit ring stayed full"},
	Stopping:           {"stopping", "the router stopped before the packet could be sent"},
	EngineFailed:       {"engine_failed", "the engine failed while it processed the packet; another engine has replaced it"},

	XfrmInHdrError:         {"xfrm_in_hdr_error", "the headers before ESP are malformed, or belong to a fragment"},
	XfrmInNoStates:         {"xfrm_in_no_states", "no SA has the packet's SPI and address"},
	XfrmInStateInvalid:     {"xfrm_in_state_invalid", "the SA was deleted"},
	XfrmInStateExpired:     {"xfrm_in_state_expired", "the SA has reached its hard lifetime"},
	XfrmInStateDirError:    {"xfrm_in_state_dir_error", "the SA is outbound"},
	XfrmInStateMismatch:    {"xfrm_in_state_mismatch", "the packet is UDP-encapsulated and the SA is not, or the reverse"},
	XfrmInStateSeqError:    {"xfrm_in_state_seq_error", "the sequence number is a duplicate or older than the replay window"},
	XfrmInStateProtoError:  {"xfrm_in_state_proto_error", "authentication failed, or the padding is wrong"},
	XfrmInStateModeError:   {"xfrm_in_state_mode_error", "the decrypted payload does not match the SA's mode"},
	XfrmInTmplMismatch:     {"xfrm_in_tmpl_mismatch", "the packet was not protected as its policy requires"},
	XfrmInNoPols:           {"xfrm_in_no_pols", "no policy matches the decrypted packet"},
	XfrmInPolBlock:         {"xfrm_in_pol_block", "a policy discards the packet"},
	XfrmInBufferError:      {"xfrm_in_buffer_error", "no free frames for a reassembled packet, or it decrypts to more than 65521 bytes"},
	XfrmInDummy:            {"xfrm_in_dummy", "the packet is a dummy of traffic flow confidentiality"},
	XfrmInECNError:         {"xfrm_in_ecn_error", "the outer header reports congestion, and the inner packet does not support ECN"},
	XfrmOutNoStates:        {"xfrm_out_no_states", "a policy protects the packet, and no SA exists for it"},
	XfrmOutStateInvalid:    {"xfrm_out_state_invalid", "the outbound SA was deleted"},
	XfrmOutStateExpired:    {"xfrm_out_state_expired", "the outbound SA has reached its hard lifetime"},
	XfrmOutStateDirError:   {"xfrm_out_state_dir_error", "the SA is inbound"},
	XfrmOutStateSeqError:   {"xfrm_out_state_seq_error", "the sequence numbers of the SA are exhausted"},
	XfrmOutStateProtoError: {"xfrm_out_state_proto_error", "the packet could not be encrypted"},
	XfrmOutStateModeError:  {"xfrm_out_state_mode_error", "the SA's mode cannot carry the packet"},
	XfrmOutPolBlock:        {"xfrm_out_pol_block", "an outbound policy discards the packet, or it is an ICMP error about a protected packet that may not enter its tunnel"},
	XfrmOutBundleGenError:  {"xfrm_out_bundle_gen_error", "the SA that the policy requires cannot be built"},
	XfrmOutError:           {"xfrm_out_error", "the encrypted packet does not fit its buffer"},

	ReversePath:      {"reverse_path", "no route leads back to the source, or none by the ingress port (RFC 3704)"},
	FragmentsMissing: {"fragments_missing", "fragments of the packet did not arrive in time, or too many packets were being reassembled"},
	GPUBadResult:     {"gpu_bad_result", "the GPU returned an invalid result, or left the packet unencrypted"},

	XfrmPolicyRefused: {"xfrm_policy_refused", "an XFRM policy matches that this router does not support"},

	XfrmOutNoPols: {"xfrm_out_no_pols", "the route leads over an XFRM interface, and no policy with its if_id matches the packet"},
	HostLimit:     {"host_limit", "the worker's time for packets to Linux was used up (exit.share)"},
	HostFull:      {"host_full", "Linux did not accept the packet: the interface to Linux is down or deleted, or memory is short"},

	LaneFull: {"lane_full", "the queue of the packet's lane was full: packets of the lane arrive faster than the engine processes them"},

	NoTable: {"no_table", "the ingress port is in a VRF whose routing table the router does not have: it is being read, or cannot be used"},

	VLANUnknown: {"vlan_unknown", "the VLAN interface of the frame's tag was deleted, or set down, while the frame arrived"},
}

// String returns the reason's name, as metrics and `show drops` print it.
func (r Reason) String() string {
	if int(r) < NumReasons {
		return reasons[r].name
	}
	return "invalid"
}

// Description explains the reason in one sentence.
func (r Reason) Description() string {
	if int(r) < NumReasons {
		return reasons[r].description
	}
	return ""
}

// ParseReason finds a reason by its name.
func ParseReason(name string) (Reason, bool) {
	for r := range reasons {
		if reasons[r].name == name {
			return Reason(r), true
		}
	}
	return 0, false
}
