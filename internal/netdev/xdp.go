package netdev

import (
	"encoding/binary"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
)

// XDPProgram returns the ID of an interface's XDP program, 0 for none, and its mode: native,
// generic, hardware or several.
func XDPProgram(ifindex int) (id uint32, mode string, err error) {
	l, err := netlink.LinkByIndex(ifindex)
	if err != nil {
		return 0, "", err
	}
	x := l.Attrs().Xdp
	if x == nil || !x.Attached {
		return 0, "", nil
	}
	switch x.AttachMode {
	case 1: // XDP_ATTACHED_DRV of linux/if_link.h
		mode = "native"
	case 2: // XDP_ATTACHED_SKB
		mode = "generic"
	case 3: // XDP_ATTACHED_HW
		mode = "hardware"
	default:
		mode = "several"
	}
	return x.ProgId, mode, nil
}

// Constants of linux/netdev.h.
const (
	netdevCmdDevGet      = 1
	netdevDevIfindex     = 1
	netdevDevRxMetadata  = 5      // NETDEV_A_DEV_XDP_RX_METADATA_FEATURES, a set of kfuncs
	netdevRxMetadataVLAN = 1 << 2 // NETDEV_XDP_RX_METADATA_VLAN_TAG, since Linux 6.8
	rxMetadataAttrLen    = 8
)

// ReportsVLANTags reports whether the driver of an interface has XDP metadata of VLAN tags that are stripped before
// the program.
func ReportsVLANTags(ifindex int) bool {
	answer, err := Get(netdevCmdDevGet, nl.NewRtAttr(netdevDevIfindex, nl.Uint32Attr(uint32(ifindex))))
	features := answer[netdevDevRxMetadata]
	return err == nil && len(features) == rxMetadataAttrLen && binary.NativeEndian.Uint64(features)&netdevRxMetadataVLAN != 0
}
