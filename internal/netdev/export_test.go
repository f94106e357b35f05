package netdev

import (
	"cmp"
	"slices"

	"github.com/vishvananda/netlink"
)

var (
	NAPIThreads     = napiThreads
	QueuesWithXDPOf = queuesWithXDP
)

// DevicesByNetlink is Devices by package netlink.
func DevicesByNetlink() ([]Device, error) {
	links, err := retry(netlink.LinkList)
	if err != nil {
		return nil, err
	}
	kinds, devices := map[int]string{}, []Device{}
	for _, l := range links {
		kinds[l.Attrs().Index] = l.Type()
		devices = append(devices, deviceOf(l))
	}
	for i := range devices {
		devices[i].MemberOf = kinds[devices[i].Master]
	}
	slices.SortFunc(devices, func(a, b Device) int { return cmp.Compare(a.Index, b.Index) })
	return devices, nil
}
