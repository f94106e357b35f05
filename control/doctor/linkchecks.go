package doctor

import (
	"fmt"

	"github.com/warproute/warproute/umem"
)

func linkState(_ *Host, l *Link) []Finding {
	switch {
	case l.Loopback:
		return fail("choose an Ethernet interface", "the loopback interface leads nowhere")
	case len(l.MAC) != 6:
		return fail("choose an Ethernet interface", "it has no Ethernet address")
	case l.Refusal != nil:
		return fail(l.Refusal.Hint, "%s", l.Refusal.Reason)
	case !l.Up:
		return warn("sudo ip link set "+l.Name+" up", "down")
	case !l.Carrier:
		return warn("plug in the cable, or bring up the other end", "up, but without a carrier")
	}
	return ok("up, %v", l.MAC)
}

func master(_ *Host, l *Link) []Finding {
	alone := fmt.Sprintf("sudo ip link set %s nomaster", l.Name)
	switch l.MasterIs {
	case "":
		return ok("none")
	case "vrf":
		return fail(alone+", or give the router a network namespace instead of the VRF",
			"it belongs to VRF %s, and the router routes by the main table alone, out of the VRF", l.Master)
	}
	return warn(alone, "it belongs to %s %s: the router takes IP packets to its MAC address before %s sees them, and has no routes by it", l.MasterIs, l.Master, l.Master)
}

func queues(h *Host, l *Link) []Finding {
	if l.TxQueues < l.Queues {
		return fail(fmt.Sprintf("sudo ethtool -L %s rx %d tx %d", l.Name, l.TxQueues, l.TxQueues),
			"%d to receive on and %d to transmit on, and each must do both", l.Queues, l.TxQueues)
	}
	if l.Queues > h.Cores {
		return warn(fmt.Sprintf("sudo ethtool -L %s combined %d", l.Name, h.Cores),
			"%d, each with a worker if `workers` is 0, and %d cores", l.Queues, h.Cores)
	}
	return ok("%d", l.Queues)
}

// Frames of several buffers are of Linux 6.6.
const jumboMajor, jumboMinor = 6, 6

func mtu(h *Host, l *Link) []Finding {
	major, minor, known := h.version()
	switch {
	case l.MTU <= umem.MaxMTU:
		return ok("%d", l.MTU)
	case l.MTU > umem.MaxLargeMTU:
		return fail(fmt.Sprintf("sudo ip link set %s mtu %d", l.Name, umem.MaxLargeMTU), "%d, and a large frame holds %d", l.MTU, umem.MaxLargeMTU)
	case known && (major < jumboMajor || major == jumboMajor && minor < jumboMinor):
		return fail(fmt.Sprintf("sudo ip link set %s mtu %d, or boot Linux %d.%d or later", l.Name, umem.MaxMTU, jumboMajor, jumboMinor),
			"%d, and a frame holds %d: Linux %s cannot deliver one in several", l.MTU, umem.MaxMTU, h.Release)
	}
	return ok("%d: frames that do not fit %d bytes are put together from several, by a copy; few drivers do that with zero-copy", l.MTU, umem.MaxMTU)
}

func attached(_ *Host, l *Link) []Finding {
	switch {
	case l.Ours:
		return fail("nothing, if that router shall go on; stop it before another starts", "a router has the port, in %s mode", l.XDP)
	case l.XDP != "":
		return fail(l.Attached.Hint(), "one is attached already, in %s mode: %v", l.XDP, l.Attached)
	case len(l.Sockets) > 0:
		return fail("stop the process that has it (`ss --xdp --processes`)", "none attached, but queue %d has an AF_XDP socket already", l.Sockets[0])
	}
	return ok("none attached")
}

// Offloads that change frames before XDP sees them, as linux/ethtool.h numbers
// them in ETHTOOL_GFLAGS.
const (
	flagRxVLAN = 1 << 8
	flagLRO    = 1 << 15
)

func offloads(_ *Host, l *Link) (found []Finding) {
	if l.Flags&flagLRO != 0 {
		found = append(found, warn(fmt.Sprintf("sudo ethtool -K %s lro off", l.Name),
			"LRO is on: it merges received packets, and most drivers refuse native XDP with it")...)
	}
	switch {
	case l.Driver == "veth":
		found = append(found, warn(fmt.Sprintf("at the peer of %s: sudo ethtool -K PEER txvlan off, if VLANs are in use", l.Name),
			"the peer may strip VLAN tags before XDP sees them: tagged packets would be routed as untagged ones")...)
	case l.Flags&flagRxVLAN != 0:
		found = append(found, warn(fmt.Sprintf("sudo ethtool -K %s rxvlan off", l.Name),
			"VLAN tags are stripped before XDP sees them: tagged packets would be routed as untagged ones")...)
	}
	if l.Soft != "" {
		found = append(found, ok("senders at %s leave L4 checksums unfinished: the router completes them (checksum: auto)", l.Soft)...)
	}
	if len(found) == 0 {
		return ok("none that matters is on")
	}
	return found
}
