package doctor

import (
	"fmt"
	"strings"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/internal/placement"
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
	case len(l.Members) > 0:
		return ok("up, %v, bond of %s", l.MAC, strings.Join(l.Members, ", "))
	}
	return ok("up, %v", l.MAC)
}

func master(_ *Host, l *Link) []Finding {
	if l.Bond != "" {
		return ok("bond %s, which is the port", l.Bond)
	}
	alone := fmt.Sprintf("sudo ip link set %s nomaster", l.Name)
	switch l.MasterKind {
	case "":
		return ok("none")
	case "vrf":
		return ok("VRF %s, whose table routes the packets of the port; an IPsec gateway does not start on it", l.Master)
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

// numaNode has no finding on a host with one node.
func numaNode(h *Host, l *Link) []Finding {
	switch {
	case h.Nodes < 2:
		return nil
	case l.Node == placement.Unknown:
		return ok("none")
	case l.Node != h.node:
		return warn(fmt.Sprintf("put the NIC into a slot of node %d, or the ports of each node into a router of their own", h.node),
			"%d: workers and frames are on node %d, that of most ports, and packets of this port cross between the nodes", l.Node, h.node)
	}
	return ok("%d, that of the workers", l.Node)
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

// tagsUnread returns why stripped VLAN tags of a port will not be read, "" if they will be.
func (l *Link) tagsUnread() string {
	switch {
	case l.Trial != nil && l.Trial.Err == nil:
		return l.Trial.TagsUnread
	case l.XDP == "" && l.Predicted != nil && l.Predicted.Mode == afxdp.Generic.String():
		return afxdp.UnreadGeneric
	}
	return l.TagsUnread
}

func offloads(_ *Host, l *Link) (found []Finding) {
	if l.Flags&netdev.FlagLRO != 0 {
		found = append(found, warn(fmt.Sprintf("sudo ethtool -K %s lro off", l.Name),
			"LRO merges received packets, and most drivers refuse native XDP with it")...)
	}
	unread := l.tagsUnread()
	if loss, hint := afxdp.LostTags(l.Name, netdev.Driver{Name: l.Driver, Flags: l.Flags}, unread); loss != "" {
		found = append(found, warn(hint, "%s", loss)...)
	}
	if unread == "" {
		found = append(found, ok("VLAN tags that are stripped before XDP are read from its metadata")...)
	}
	if l.PartialChecksums != "" {
		found = append(found, ok("senders on %s leave L4 checksums incomplete: the router completes them (checksum: auto)", l.PartialChecksums)...)
	}
	if len(found) == 0 {
		return ok("none that affects the router")
	}
	return found
}
