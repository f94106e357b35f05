package doctor

import (
	"fmt"

	"github.com/warproute/warproute/umem"
)

func linkState(_ *Host, l *Link) []Finding {
	switch {
	case l.Loopback:
		return fail("choose an Ethernet interface", "the loopback interface cannot forward")
	case len(l.MAC) != 6:
		return fail("choose an Ethernet interface", "it has no Ethernet address")
	case l.Refusal != nil:
		return fail(l.Refusal.Hint, "%s", l.Refusal.Reason)
	case !l.Up:
		return warn("sudo ip link set "+l.Name+" up", "down")
	case !l.Carrier:
		return warn("plug in the cable, or bring up the other end", "up, no carrier")
	}
	return ok("up, %v", l.MAC)
}

func master(_ *Host, l *Link) []Finding {
	alone := fmt.Sprintf("sudo ip link set %s nomaster", l.Name)
	switch l.MasterKind {
	case "":
		return ok("none")
	case "vrf":
		return fail(alone+", or run the router in a network namespace instead of the VRF",
			"member of VRF %s, but the router only uses the main table", l.Master)
	}
	return warn(alone, "member of %s %s: the router receives IP packets to its MAC address before %s, and has no routes over it", l.MasterKind, l.Master, l.Master)
}

func queues(h *Host, l *Link) []Finding {
	if l.TxQueues < l.Queues {
		return fail(fmt.Sprintf("sudo ethtool -L %s rx %d tx %d", l.Name, l.TxQueues, l.TxQueues),
			"%d receive and %d transmit queues, but each must do both", l.Queues, l.TxQueues)
	}
	if l.Queues > h.Cores {
		return warn(fmt.Sprintf("sudo ethtool -L %s combined %d", l.Name, h.Cores),
			"%d, each with a worker if `workers` is 0, but only %d cores", l.Queues, h.Cores)
	}
	return ok("%d", l.Queues)
}

// Linux supports multi-buffer frames since 6.6.
const jumboMajor, jumboMinor = 6, 6

func mtu(h *Host, l *Link) []Finding {
	major, minor, known := h.version()
	switch {
	case l.MTU <= umem.MaxMTU:
		return ok("%d", l.MTU)
	case l.MTU > umem.MaxLargeMTU:
		return fail(fmt.Sprintf("sudo ip link set %s mtu %d", l.Name, umem.MaxLargeMTU), "%d, above the maximum of %d", l.MTU, umem.MaxLargeMTU)
	case known && (major < jumboMajor || major == jumboMajor && minor < jumboMinor):
		return fail(fmt.Sprintf("sudo ip link set %s mtu %d, or boot Linux %d.%d or later", l.Name, umem.MaxMTU, jumboMajor, jumboMinor),
			"%d, above %d, which Linux %s does not support (multi-buffer frames)", l.MTU, umem.MaxMTU, h.Release)
	}
	return ok("%d: packets above %d bytes arrive in several buffers and are copied; few drivers support that with zero-copy", l.MTU, umem.MaxMTU)
}

func attached(_ *Host, l *Link) []Finding {
	switch {
	case l.IsRouter:
		return fail("stop the running router before starting another", "a running router uses the port, in %s mode", l.XDP)
	case l.XDP != "":
		return fail(l.Attached.Hint(), "another program is attached, in %s mode: %v", l.XDP, l.Attached)
	case len(l.Sockets) > 0:
		return fail("stop the process with the socket (`ss --xdp --processes`)", "none attached, but queue %d has an AF_XDP socket", l.Sockets[0])
	}
	return ok("none attached")
}

// Offloads that modify frames before XDP (ETHTOOL_GFLAGS of linux/ethtool.h).
const (
	flagRxVLAN = 1 << 8
	flagLRO    = 1 << 15
)

func offloads(_ *Host, l *Link) (found []Finding) {
	if l.Flags&flagLRO != 0 {
		found = append(found, warn(fmt.Sprintf("sudo ethtool -K %s lro off", l.Name),
			"LRO merges received packets, and most drivers refuse native XDP with it")...)
	}
	switch {
	case l.Driver == "veth":
		found = append(found, warn(fmt.Sprintf("on the peer of %s, if VLANs are used: sudo ethtool -K PEER txvlan off", l.Name),
			"the peer can strip VLAN tags before XDP: tagged packets would be routed as untagged")...)
	case l.Flags&flagRxVLAN != 0:
		found = append(found, warn(fmt.Sprintf("sudo ethtool -K %s rxvlan off", l.Name),
			"VLAN tags are stripped before XDP: tagged packets would be routed as untagged")...)
	}
	if l.PartialChecksums != "" {
		found = append(found, ok("senders on %s leave L4 checksums incomplete: the router completes them (checksum: auto)", l.PartialChecksums)...)
	}
	if len(found) == 0 {
		return ok("none that affects the router")
	}
	return found
}
