package batch

// mends say what an operator does about packets that were dropped for a reason, or why
// there is nothing to do.
var mends = [NumReasons]string{
	Unprocessed:        "a fault of this router: report it, with `show engine` and the log",
	TooShort:           "look at the sender, or at what cuts its frames (`warproute capture --reason too_short` has them)",
	EtherType:          "the XDP program leaves such frames to Linux: any here are a fault of this router, to be reported",
	IPVersion:          "look at the sender: `warproute capture --reason ip_version` has its frames",
	HeaderLength:       "look at the sender: `warproute capture --reason header_length` has its frames",
	BadLength:          "look at the sender, or at what cuts its frames on the way",
	BadChecksum:        "a faulty link, card or sender; beside errors in `ip -s link` it is the link",
	IPOptions:          "these came out of a tunnel, where no packet may have options; others are left to Linux",
	TTLExpired:         "expected of traceroute; many to one destination are in a routing loop: `traceroute` shows it",
	SourceMartian:      "spoofed, or a host without an address of its own; find it by its link address in a capture",
	DestMartian:        "look at the sender: loopback, 0/8, 240/4 and link-local addresses stay on their host or link",
	FragmentOverlap:    "an attack on filters, or a sender of overlapping fragments; there is nothing to mend here",
	RoutingHeader:      "an obsolete header that is used in attacks; there is nothing to mend here",
	ExtensionHeaders:   "look at the sender; more than eight headers in front of the payload are an attack",
	NoRoute:            "compare `ip route get ADDRESS` with `warproute route lookup ADDRESS`; add a route, or see whether a routing daemon lost one",
	Blackhole:          "as configured: `ip route show type blackhole`",
	Unreachable:        "as configured: `ip route show type unreachable`",
	Prohibit:           "as configured: `ip route show type prohibit`",
	LocalDelivery:      "some are expected when an address is new; through a tunnel this host is reached with `ipsec.interface`, by sources to which a route leads by it; local prefixes (AnyIP) are not supported",
	NoPort:             "add the interface of the route as a port (`--port`), or the route by a port; MPLS, SRv6 and tunnel routes are not supported",
	PortDown:           "`ip link` tells of the port; an interface that was deleted is the port again once it is back, if the log does not say why not",
	MTUExceeded:        "sources are told, unless ICMP is filtered on its way to them; else raise the MTU of the port (`show ports`) or the route (`route lookup`), or lower theirs",
	NeighborUnresolved: "the neighbour does not answer ARP or neighbour discovery: see `ip neigh`, and whether the next hop is on that link",
	HoldFull:           "a scan of an attached network, or a next hop that is down: see `ip neigh` for failed entries",
	TxFull:             "the port is slower than what is to leave by it: a faster port, more queues, or less traffic",
	Stopping:           "expected when the router stops",
	EngineFailed:       "see `show engine` for the GPU's fault and the kernel's log for its number (Xid)",

	XfrmInHdrError:         "look at the peer: `warproute capture --reason xfrm_in_hdr_error` has its packets",
	XfrmInNoStates:         "compare SPI and addresses with `show sas`: the peer uses an association that is not configured, or not any more",
	XfrmInStateInvalid:     "some are expected at a rekey; else the peer goes on with an association that is gone here",
	XfrmInStateExpired:     "rekey earlier: the key daemon or the configuration has to replace the association before its hard lifetime",
	XfrmInStateDirError:    "two associations share an SPI: `show sas`; give each its own",
	XfrmInStateMismatch:    "encap (NAT-T) is set on one side only",
	XfrmInStateSeqError:    "few are late packets: a wider replay_window helps; many are a replay, or a peer that restarted with old numbers",
	XfrmInStateProtoError:  "keys or suites differ between the peers, or packets are forged; `show sas` counts forgeries",
	XfrmInStateModeError:   "one side has tunnel mode and the other transport mode",
	XfrmInTmplMismatch:     "arrived in clear, or by another association than the inbound policy names: compare the policies of both sides",
	XfrmInNoPols:           "what came out of a tunnel needs an inbound policy: `show policies`; ICMP errors must go to the source that they quote",
	XfrmInPolBlock:         "as configured: `show policies`",
	XfrmInBufferError:      "too many large datagrams at once, or a port whose MTU takes more than 250 fragments for one: see `show ports`",
	XfrmInDummy:            "expected of a peer that conceals how much it sends (RFC 4303 2.6)",
	XfrmInECNError:         "as RFC 6040 demands; the path is congested and the source does not do ECN",
	XfrmOutNoStates:        "the association that the policy names is not there: see `show sas`, and the key daemon's log",
	XfrmOutStateInvalid:    "some are expected when an association is removed without another in its place",
	XfrmOutStateExpired:    "rekey earlier: the key daemon or the configuration has to replace the association before its hard lifetime",
	XfrmOutStateDirError:   "the policy names an association for receiving: `show policies`",
	XfrmOutStateSeqError:   "rekey: a key must not be used any longer; esn: true gives 64-bit numbers",
	XfrmOutStateProtoError: "a fault of this router: report it, with `show sas`",
	XfrmOutStateModeError:  "transport mode takes packets between its own two addresses; use a tunnel for others",
	XfrmOutPolBlock:        "as configured: `show policies`; ICMP errors are forged, or come by another port than the one that leads to the quoted destination",
	XfrmOutBundleGenError:  "look at the policy and its association: `show policies`, `show sas`",
	XfrmOutError:           "the tunnel's path has too small an MTU for any packet: raise it",

	ReversePath:      "spoofed, or the way back is another: `route lookup SOURCE`; loosen reverse_path of the port, or rp_filter of the interface where it is auto",
	FragmentsMissing: "fragments of protected packets are lost on their way, overtake the first one of ESP in UDP, or are forged: `warproute capture --reason fragments_missing` has some of them",
	GPUBadResult:     "the GPU is out of use, see the log; check it for memory errors (nvidia-smi -q -d ECC) and restart the router to use it again",

	XfrmPolicyRefused: "`show policies` names the policy and why it is refused; change or delete it, as by policy-based tunnels in place of an XFRM interface (if_id)",
}

// Mend says what an operator does about packets that were dropped for the reason, or why
// there is nothing to do.
func (r Reason) Mend() string {
	if int(r) < NumReasons {
		return mends[r]
	}
	return ""
}
