package doctor

import (
	"encoding/binary"

	"github.com/vishvananda/netlink/nl"

	"github.com/warproute/warproute/internal/netdev"
)

// Features is the XDP support that a driver reports, since Linux 6.3.
type Features struct {
	Known            bool
	Native, ZeroCopy bool
	ZeroCopySegments int // maximum of buffers per frame with zero-copy; 0: unknown
}

// Constants of linux/netdev.h.
const (
	netdevCmdDevGet      = 1
	netdevAttrIfindex    = 1
	netdevAttrFeatures   = 3
	netdevAttrSegments   = 4
	netdevActBasic       = 1 << 0
	netdevActRedirect    = 1 << 1
	netdevActXSKZeroCopy = 1 << 3

	netdevCmdQueueGet  = 10
	netdevQueueID      = 1
	netdevQueueIfindex = 2
	netdevQueueType    = 3 // 0: receive
	netdevQueueXSK     = 7
)

// readFeatures queries the netdev netlink family, which Linux has since 6.3.
func readFeatures(ifindex int) (f Features) {
	answer, err := netdev.Get(netdevCmdDevGet, nl.NewRtAttr(netdevAttrIfindex, nl.Uint32Attr(uint32(ifindex))))
	features := answer[netdevAttrFeatures]
	if err != nil || len(features) != 8 {
		return f
	}
	bits := binary.NativeEndian.Uint64(features)
	const native = netdevActBasic | netdevActRedirect
	return Features{Known: true, Native: bits&native == native, ZeroCopy: bits&netdevActXSKZeroCopy != 0, ZeroCopySegments: int(answer.Uint32(netdevAttrSegments))}
}

// queuesWithSockets returns the receive queues with an AF_XDP socket of any process; none before
// Linux 6.15 or if the interface is down.
func queuesWithSockets(ifindex int) (queues []int) {
	answers, _ := netdev.Dump(netdevCmdQueueGet, nl.NewRtAttr(netdevQueueIfindex, nl.Uint32Attr(uint32(ifindex))))
	for _, a := range answers {
		if _, ok := a[netdevQueueXSK]; ok && a.Uint32(netdevQueueType) == 0 {
			queues = append(queues, int(a.Uint32(netdevQueueID)))
		}
	}
	return queues
}
