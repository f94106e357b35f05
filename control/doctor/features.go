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

	netdevCmdQueueGet  = 10
	netdevQueueID      = 1
	netdevQueueIfindex = 2
	netdevQueueType    = 3 // 0 of those for receiving
	netdevQueueXSK     = 7
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

// queuesWithSockets returns the queues on which an interface receives for an AF_XDP socket
// of some process. Before Linux 6.15, and of an interface that is down, the kernel tells none.
func queuesWithSockets(ifindex int) (queues []int) {
	answers, _ := genl.Dump("netdev", netdevCmdQueueGet, nl.NewRtAttr(netdevQueueIfindex, nl.Uint32Attr(uint32(ifindex))))
	for _, a := range answers {
		if _, has := a[netdevQueueXSK]; has && a.Uint32(netdevQueueType) == 0 {
			queues = append(queues, int(a.Uint32(netdevQueueID)))
		}
	}
	return queues
}
