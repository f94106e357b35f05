package doctor

import (
	"encoding/binary"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Features is what a driver says of its XDP support, since Linux 6.3.
type Features struct {
	Known            bool
	Native, ZeroCopy bool
}

// Of linux/netdev.h.
const (
	netdevCmdDevGet      = 1
	netdevAttrIfindex    = 1
	netdevAttrFeatures   = 3
	netdevActBasic       = 1 << 0
	netdevActRedirect    = 1 << 1
	netdevActXSKZeroCopy = 1 << 3
)

// readFeatures asks the kernel's netdev family; before Linux 6.3 there is none.
func readFeatures(ifindex int) (f Features) {
	family, err := netlink.GenlFamilyGet("netdev")
	if err != nil {
		return f
	}
	req := nl.NewNetlinkRequest(int(family.ID), 0)
	req.AddData(&nl.Genlmsg{Command: netdevCmdDevGet, Version: 1})
	req.AddData(nl.NewRtAttr(netdevAttrIfindex, nl.Uint32Attr(uint32(ifindex))))
	msgs, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil || len(msgs) != 1 || len(msgs[0]) < nl.SizeofGenlmsg {
		return f
	}
	attrs, err := nl.ParseRouteAttr(msgs[0][nl.SizeofGenlmsg:])
	if err != nil {
		return f
	}
	for _, a := range attrs {
		if a.Attr.Type == netdevAttrFeatures && len(a.Value) == 8 {
			bits := binary.NativeEndian.Uint64(a.Value)
			const native = netdevActBasic | netdevActRedirect
			f = Features{Known: true, Native: bits&native == native, ZeroCopy: bits&netdevActXSKZeroCopy != 0}
		}
	}
	return f
}
