package batch

// hints say how an operator fixes drops with a reason, or why there is nothing to fix.
var hints = [NumReasons]string{
	Unprocessed:        "report a bug in the router, with `show engine` and the log",
	TooShort:           "inspect the sender, or the device that truncates its frames (`warproute capture --reason too_short`)",
	EtherType:          "report a bug in the router: the XDP program should have passed these frames to Linux",
	IPVersion:          "inspect the sender (`warproute capture --reason ip_version`)",
	HeaderLength:       "inspect the sender (`warproute capture --reason header_length`)",
	BadLength:          "inspect the sender, or a device on the path that truncates its frames",
	BadChecksum:        "replace a faulty link, NIC or sender; if `ip -s link` also counts errors, it is the link",
	IPOptions:          "send packets without options through tunnels; outside of tunnels Linux handles packets with options",
	TTLExpired:         "expected with traceroute; many for one destination are a routing loop, which `traceroute` shows",
	SourceMartian:      "find the sender by its MAC address in a capture: the source is spoofed, or the host has no address",
	DestMartian:        "inspect the sender: loopback, 0/8, 240/4 and link-local addresses must not leave their host or link",
	FragmentOverlap:    "an attack on filters, or a sender of overlapping fragments; nothing to fix on this router",
	RoutingHeader:      "an obsolete header that is used in attacks; nothing to fix on this router",
	ExtensionHeaders:   "inspect the sender; more than eight extension headers are an attack",
	NoRoute:            "compare `ip route get ADDRESS` with `warproute route lookup ADDRESS`; add a route, or check the routing daemon",
	Blackhole:          "as configured: `ip route show type blackhole`",
	Unreachable:        "as configured: `ip route show type unreachable`",
	Prohibit:           "as configured: `ip route show type prohibit`",
	LocalDelivery:      "a few are expected after an address is added; to reach this host through a tunnel, set ipsec.interface and route the sources to it; local prefixes (AnyIP) are not supported",
	NoPort:             "have Linux forward (net.ipv4.ip_forward=1, net.ipv6.conf.all.forwarding=1; on gateways also exit.linux: on), add the interface as a port, or route by a port; MPLS, SRv6 and other encap routes are not supported",
	PortDown:           "check the port with `ip link`; a deleted interface becomes the port again when it is recreated, unless the log says otherwise",
	MTUExceeded:        "senders get an ICMP error unless a filter drops it; otherwise raise the MTU of the port (`show ports`) or the route (`route lookup`), or lower theirs",
	NeighborUnresolved: "the neighbor does not answer ARP or neighbor discovery: check `ip neigh`, and that the next hop is on that link",
	NeighborQueueFull:  "a scan of an attached network, or a next hop that is down: check `ip neigh` for failed entries",
	TxFull:             "traffic exceeds the port: use a faster port, more queues, or less traffic",
	Stopping:           "expected when the router stops",
	EngineFailed:       "check `show engine` for the GPU fault, and the kernel log for its Xid",

	XfrmInHdrError:         "inspect the peer (`warproute capture --reason xfrm_in_hdr_error`)",
	XfrmInNoStates:         "compare SPI and addresses with `show sas`: the peer uses an SA that this router does not have, or no longer has",
	XfrmInStateInvalid:     "a few are expected at a rekey; otherwise the peer still uses an SA that was deleted here",
	XfrmInStateExpired:     "rekey earlier: the key daemon or the configuration must replace the SA before its hard lifetime",
	XfrmInStateDirError:    "two SAs share an SPI (`show sas`): give each its own",
	XfrmInStateMismatch:    "set encap (NAT-T) on both sides, or on neither",
	XfrmInStateSeqError:    "a few are late packets: widen replay_window; many are a replay, or a peer that restarted with old numbers",
	XfrmInStateProtoError:  "keys or suites differ between the peers, or packets are forged; `show sas` counts ICV failures",
	XfrmInStateModeError:   "set tunnel or transport mode on both sides alike",
	XfrmInTmplMismatch:     "the packet was in plaintext, or protected by another SA than the inbound policy names: compare the policies of both sides",
	XfrmInNoPols:           "add an inbound policy for packets out of the tunnel (`show policies`); ICMP errors must go to the source that they quote",
	XfrmInPolBlock:         "as configured: `show policies`",
	XfrmInBufferError:      "too many large datagrams at once, or a port whose MTU takes more than 250 fragments for one (`show ports`)",
	XfrmInDummy:            "expected of a peer that conceals its traffic volume (RFC 4303 2.6)",
	XfrmInECNError:         "required by RFC 6040: the path is congested and the source does not support ECN",
	XfrmOutNoStates:        "the SA that the policy names does not exist: check `show sas` and the key daemon's log",
	XfrmOutStateInvalid:    "a few are expected when an SA is deleted without a replacement",
	XfrmOutStateExpired:    "rekey earlier: the key daemon or the configuration must replace the SA before its hard lifetime",
	XfrmOutStateDirError:   "the policy names an inbound SA (`show policies`)",
	XfrmOutStateSeqError:   "rekey: the key must not be used any longer; esn: true gives 64-bit numbers",
	XfrmOutStateProtoError: "report a bug in the router, with `show sas`",
	XfrmOutStateModeError:  "transport mode takes packets between its own two addresses; use a tunnel for others",
	XfrmOutPolBlock:        "as configured: `show policies`; dropped ICMP errors are forged, or came in by another port than the one that leads to the quoted destination",
	XfrmOutBundleGenError:  "check the policy and its SA (`show policies`, `show sas`)",
	XfrmOutError:           "raise the MTU of the tunnel's path: it is too small for any packet",

	ReversePath:      "the source is spoofed, or routing is asymmetric (`route lookup SOURCE`); relax reverse_path of the port, or rp_filter of the interface if reverse_path is auto",
	FragmentsMissing: "fragments of protected packets were lost, arrived before the first one of ESP in UDP, or are forged (`warproute capture --reason fragments_missing`)",
	GPUBadResult:     "the GPU is disabled, see the log; check it for memory errors (nvidia-smi -q -d ECC), and restart the router to enable it",

	HostLimit:   "expected in a flood; otherwise raise exit.share, use more workers, or make the interface of the route a port",
	HostFull:    "check the interface (`ip -s link show warproute0`), and restart the router if it was deleted",
	NoTable:     "a few are expected while a VRF is created; otherwise warproute doctor names the VRF and the reason",
	VLANUnknown: "a few are expected when a VLAN interface is deleted or set down; Linux gets frames of unknown VLANs at other times",

	LaneFull:          "`show lanes` has the load of each lane; use more workers or queues, or a GPU for the packets of tunnels",
	XfrmOutNoPols:     "bring the tunnel of the interface up (`swanctl --initiate`, or start_action = trap), or widen its traffic selectors; `show policies` lists its policies",
	XfrmPolicyRefused: "`show policies` names the policy and the reason; change or delete it",
}

// Hint says how an operator fixes drops with the reason, or why there is nothing to fix.
func (r Reason) Hint() string {
	if int(r) < NumReasons {
		return hints[r]
	}
	return ""
}
