package netdev

import "github.com/vishvananda/netlink"

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
