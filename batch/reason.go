package batch

// Reason says why a packet was not forwarded. Each has one counter per port
// (drops_total{reason,port}), one name and one sentence.
type Reason uint8

const (
	Unprocessed        Reason = iota
	TooShort                  // frame or header ends early
	EtherType                 // neither IPv4 nor IPv6
	IPVersion                 // version field against EtherType
	HeaderLength              // IPv4 IHL below 5 or beyond the packet
	BadLength                 // total or payload length beyond the frame
	BadChecksum               // IPv4 header checksum
	IPOptions                 // IPv4 options; Linux's, not ours
	TTLExpired                // TTL or hop limit of 0 or 1
	SourceMartian             // RFC 1812 5.3.7, RFC 4291
	DestMartian               //
	FragmentOverlap           // fragment offset 1 of TCP, RFC 3128
	RoutingHeader             // IPv6 type 0 routing header, RFC 5095
	ExtensionHeaders          // chain too long or broken
	NoRoute                   //
	Blackhole                 // route types of Linux
	Unreachable               //
	Prohibit                  //
	LocalDelivery             // our own address, unknown when the packet passed XDP
	NoPort                    // route leaves by an interface that is not a port
	PortDown                  //
	MTUExceeded               //
	NeighborUnresolved        // no answer in time
	HoldFull                  // too many packets waiting for neighbours
	TxFull                    // egress ring stayed full
	Stopping                  // still queued when the router stopped
	EngineFailed              // the engine failed while it had the packet

	// Of IPsec, in the order and by the names of package ipsec.
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

	ReversePath      // the port demands a route back to the source, RFC 3704
	FragmentsMissing // of a packet to be reassembled here; from an engine: the worker is to reassemble it

	XfrmPolicyRefused // an XFRM policy matches that this router cannot follow
	GPUBadResult      // a GPU said of the packet what cannot be right, or did not encrypt it
	numReasons
)

// NumReasons is the number of reasons, for counters that are arrays.
const NumReasons = int(numReasons)

var reasons = [NumReasons]struct{ name, sentence string }{
	Unprocessed:        {"unprocessed", "no engine decided on the packet"},
	TooShort:           {"too_short", "the frame ends before its headers do"},
	EtherType:          {"ether_type", "the frame carries neither IPv4 nor IPv6"},
	IPVersion:          {"ip_version", "the IP version does not match the frame's EtherType"},
	HeaderLength:       {"header_length", "the IPv4 header length is below 20 bytes or beyond the packet"},
	BadLength:          {"bad_length", "the IP length field reaches beyond the frame"},
	BadChecksum:        {"bad_checksum", "the IPv4 header checksum is wrong"},
	IPOptions:          {"ip_options", "the packet has IPv4 options, which the dataplane leaves to Linux"},
	TTLExpired:         {"ttl_expired", "the TTL or hop limit ran out here"},
	SourceMartian:      {"source_martian", "no host may send from this source address (RFC 1812 5.3.7, RFC 4291)"},
	DestMartian:        {"destination_martian", "this destination address is never forwarded (RFC 1812 5.3.7, RFC 4291)"},
	FragmentOverlap:    {"fragment_overlap", "fragments overlap or contradict each other (RFC 5722), or one of TCP would overwrite the header (RFC 3128)"},
	RoutingHeader:      {"routing_header", "IPv6 type 0 routing headers are refused (RFC 5095)"},
	ExtensionHeaders:   {"extension_headers", "the IPv6 extension header chain is broken or too long"},
	NoRoute:            {"no_route", "no route covers the destination"},
	Blackhole:          {"blackhole", "a blackhole route covers the destination"},
	Unreachable:        {"unreachable", "an unreachable route covers the destination"},
	Prohibit:           {"prohibit", "a prohibit route covers the destination"},
	LocalDelivery:      {"local_delivery", "the destination is this host's, but was not known as such when the packet arrived; local prefixes are not supported"},
	NoPort:             {"no_port", "the route leaves by an interface that is not a port of this router"},
	PortDown:           {"port_down", "the egress port is down"},
	MTUExceeded:        {"mtu_exceeded", "the packet is larger than the MTU of its route or egress port"},
	NeighborUnresolved: {"neighbor_unresolved", "the next hop's link address was not found in time"},
	HoldFull:           {"hold_full", "too many packets already wait for unresolved neighbours"},
	TxFull:             {"tx_full", "the egress port's transmit ring stayed full"},
	Stopping:           {"stopping", "the router stopped before the packet could be sent"},
	EngineFailed:       {"engine_failed", "the engine failed while it had the packet; another has taken over"},

	XfrmInHdrError:         {"xfrm_in_hdr_error", "the headers in front of ESP are malformed or those of a fragment"},
	XfrmInNoStates:         {"xfrm_in_no_states", "no security association has the SPI and the address"},
	XfrmInStateInvalid:     {"xfrm_in_state_invalid", "the security association was removed"},
	XfrmInStateExpired:     {"xfrm_in_state_expired", "the security association has reached its hard lifetime"},
	XfrmInStateDirError:    {"xfrm_in_state_dir_error", "the security association is for sending"},
	XfrmInStateMismatch:    {"xfrm_in_state_mismatch", "the packet is in UDP and the security association is not, or the reverse"},
	XfrmInStateSeqError:    {"xfrm_in_state_seq_error", "the sequence number was received before or is older than the replay window"},
	XfrmInStateProtoError:  {"xfrm_in_state_proto_error", "the packet is not authentic, or its padding is wrong"},
	XfrmInStateModeError:   {"xfrm_in_state_mode_error", "what was protected is not what the security association's mode carries"},
	XfrmInTmplMismatch:     {"xfrm_in_tmpl_mismatch", "the packet was not protected as the policy demands"},
	XfrmInNoPols:           {"xfrm_in_no_pols", "no policy is for the packet"},
	XfrmInPolBlock:         {"xfrm_in_pol_block", "a policy discards the packet"},
	XfrmInBufferError:      {"xfrm_in_buffer_error", "a reassembled packet found no free frames, or is longer than 65521 bytes when it is decrypted"},
	XfrmInDummy:            {"xfrm_in_dummy", "the packet is a dummy, made to conceal how much traffic there is"},
	XfrmInECNError:         {"xfrm_in_ecn_error", "the outer header reports congestion, of which the inner packet cannot be told"},
	XfrmOutNoStates:        {"xfrm_out_no_states", "no security association is there for what a policy protects"},
	XfrmOutStateInvalid:    {"xfrm_out_state_invalid", "the security association to send by was removed"},
	XfrmOutStateExpired:    {"xfrm_out_state_expired", "the security association to send by has reached its hard lifetime"},
	XfrmOutStateDirError:   {"xfrm_out_state_dir_error", "the security association is for receiving"},
	XfrmOutStateSeqError:   {"xfrm_out_state_seq_error", "the sequence numbers of the security association are used up"},
	XfrmOutStateProtoError: {"xfrm_out_state_proto_error", "the packet could not be encrypted"},
	XfrmOutStateModeError:  {"xfrm_out_state_mode_error", "the packet is not one that the security association's mode carries"},
	XfrmOutPolBlock:        {"xfrm_out_pol_block", "an outbound policy discards the packet, or it is an ICMP error about a protected packet that may not enter its tunnel"},
	XfrmOutBundleGenError:  {"xfrm_out_bundle_gen_error", "what the policy demands cannot be built"},
	XfrmOutError:           {"xfrm_out_error", "the protected packet does not fit its buffer"},

	ReversePath:      {"reverse_path", "no route leads back to the source, or none by the port that received the packet (RFC 3704)"},
	FragmentsMissing: {"fragments_missing", "other fragments of its packet did not come in time, or too many packets waited for theirs"},
	GPUBadResult:     {"gpu_bad_result", "the GPU's result for the packet cannot be right, or it left the packet unencrypted"},

	XfrmPolicyRefused: {"xfrm_policy_refused", "an XFRM policy matches that this router cannot follow"},
}

// String returns the reason's name, as metrics and `show drops` print it.
func (r Reason) String() string {
	if int(r) < NumReasons {
		return reasons[r].name
	}
	return "invalid"
}

// Sentence explains the reason to a person.
func (r Reason) Sentence() string {
	if int(r) < NumReasons {
		return reasons[r].sentence
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
