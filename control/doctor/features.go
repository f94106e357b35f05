package doctor

import (
	"encoding/binary"

	"github.com/vishvananda/netlink/nl"

	"github.com/warproute/warproute/internal/genl"
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
	answer, err := genl.Get("netdev", netdevCmdDevGet, nl.NewRtAttr(netdevAttrIfindex, nl.Uint32Attr(uint32(ifindex))))
	features := answer[netdevAttrFeatures]
	if err != nil || len(features) != 8 {
		return f
	}
	bits := binary.NativeEndian.Uint64(features)
	const native = netdevActBasic | netdevActRedirect
	return Features{Known: true, Native: bits&native == native, ZeroCopy: bits&netdevActXSKZeroCopy != 0}
}
