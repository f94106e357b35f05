// Package napi moves the receive work of interfaces to cores of one's choice.
//
// A driver receives in NAPI, which the kernel runs in the softirq of whatever
// core the interrupt, or with veth the sender, happens to be on. Threaded, it is
// run by kernel threads, one a queue, which can be pinned and given a priority
// like any other.
package napi

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/genl"
	"github.com/warproute/warproute/internal/sysfs"
)

// Thread has the NAPI of an interface done by threads of the kernel. The thread
// of queue q is pinned to core(q) and scheduled first-in first-out with the given
// priority, 1 to 99; 0 leaves it an ordinary thread. restore gives the work back
// to softirqs.
//
// The interface is one of the calling thread's network namespace. It needs Linux
// 6.7, CAP_NET_ADMIN and CAP_SYS_NICE.
func Thread(name string, ifindex int, core func(queue int) int, priority int) (restore func() error, err error) {
	path := "class/net/" + name + "/threaded"
	err = sysfs.Write(path, "1")
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = errNone
	}
	if err != nil {
		return nil, fmt.Errorf("thread the NAPI of %s: %w", name, err)
	}
	restore = func() error {
		if err := sysfs.Write(path, "0"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("give the NAPI of %s back to softirqs: %w", name, err)
		}
		return nil
	}
	pids, err := threads(ifindex)
	if err == nil && len(pids) == 0 {
		err = errNone
	}
	for q, pid := range pids {
		if err == nil {
			err = affinity.Move(pid, core(q), priority)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("thread the NAPI of %s: %w", name, err), restore())
	}
	return restore, nil
}

var errNone = errors.New("the driver has no NAPI to thread; a veth has it under native XDP, or with GRO on")

// Of linux/netdev.h.
const (
	cmdNAPIGet  = 11
	attrIfindex = 1
	attrID      = 2
	attrPID     = 4
)

// threads returns the threads of an interface's NAPIs in the order of their
// queues, which is that of the NAPIs' numbers.
func threads(ifindex int) ([]int, error) {
	answers, err := genl.Dump("netdev", cmdNAPIGet, nl.NewRtAttr(attrIfindex, nl.Uint32Attr(uint32(ifindex))))
	if err != nil {
		return nil, fmt.Errorf("list NAPIs, which needs Linux 6.7: %w", err)
	}
	slices.SortFunc(answers, func(a, b genl.Attributes) int { return cmp.Compare(a.Uint32(attrID), b.Uint32(attrID)) })
	var pids []int
	for _, a := range answers {
		if pid := a.Uint32(attrPID); pid != 0 {
			pids = append(pids, int(pid))
		}
	}
	return pids, nil
}
