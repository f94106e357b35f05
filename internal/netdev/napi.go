package netdev

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/affinity"
)

// ThreadNAPI turns on threaded NAPI for an interface. By default, the softirq of the core that
// takes the interrupt (with veth: the sender's core) polls a queue; in threaded mode, one kernel
// thread per queue does. The thread of queue q is pinned to core(q) and runs under SCHED_FIFO
// with the given priority, 1 to 99; 0 leaves it under SCHED_OTHER. restore turns threaded NAPI off.
//
// It needs Linux 6.7, CAP_NET_ADMIN and CAP_SYS_NICE.
func ThreadNAPI(name string, ifindex int, core func(queue int) int, priority int) (restore func() error, err error) {
	path := "class/net/" + name + "/threaded"
	err = WriteSysfs(path, "1")
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = errNoNAPI
	}
	if err != nil {
		return nil, fmt.Errorf("turn on threaded NAPI of %s: %w", name, err)
	}
	restore = func() error {
		if err := WriteSysfs(path, "0"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("turn off threaded NAPI of %s: %w", name, err)
		}
		return nil
	}
	pids, err := napiThreads(ifindex)
	if err == nil && len(pids) == 0 {
		err = errNoNAPI
	}
	for q, pid := range pids {
		if err == nil {
			err = affinity.Move(pid, core(q), priority)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("turn on threaded NAPI of %s: %w", name, err), restore())
	}
	return restore, nil
}

var errNoNAPI = errors.New("the driver has no NAPI to thread; veth uses NAPI only with native XDP or GRO")

// Numbers of linux/netdev.h.
const (
	netdevCmdNAPIGet  = 11
	netdevNAPIIfindex = 1
	netdevNAPIID      = 2
	netdevNAPIPID     = 4
)

// napiThreads returns the PIDs of an interface's NAPI threads in the order of their queues,
// which is the order of the NAPI IDs.
func napiThreads(ifindex int) (pids []int, err error) {
	replies, err := Dump(netdevCmdNAPIGet, nl.NewRtAttr(netdevNAPIIfindex, nl.Uint32Attr(uint32(ifindex))))
	if err != nil {
		return nil, fmt.Errorf("list NAPI instances (needs Linux 6.7): %w", err)
	}
	slices.SortFunc(replies, func(a, b Attributes) int { return cmp.Compare(a.Uint32(netdevNAPIID), b.Uint32(netdevNAPIID)) })
	for _, a := range replies {
		if pid := a.Uint32(netdevNAPIPID); pid != 0 {
			pids = append(pids, int(pid))
		}
	}
	return pids, nil
}
