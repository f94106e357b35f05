// Package napi moves the receive work of interfaces to cores of one's choice.
//
// A driver receives in NAPI, which the kernel runs in the softirq of whatever
// core the interrupt, or with veth the sender, happens to be on. Threaded, it is
// run by kernel threads, one a queue, which can be pinned and given a priority
// like any other.
package napi

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/affinity"
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
	family := nl.NewNetlinkRequest(nl.GENL_ID_CTRL, 0)
	family.AddData(genlHeader{nl.GENL_CTRL_CMD_GETFAMILY, 1})
	family.AddData(nl.NewRtAttr(nl.GENL_CTRL_ATTR_FAMILY_NAME, nl.ZeroTerminated("netdev")))
	answers, err := request(family)
	if err != nil || len(answers) != 1 {
		return nil, fmt.Errorf("find the kernel's netdev family, which needs Linux 6.7: %w", err)
	}
	id := answers[0][nl.GENL_CTRL_ATTR_FAMILY_ID]

	get := nl.NewNetlinkRequest(int(binary.NativeEndian.Uint16(id)), unix.NLM_F_DUMP)
	get.AddData(genlHeader{cmdNAPIGet, 1})
	get.AddData(nl.NewRtAttr(attrIfindex, nl.Uint32Attr(uint32(ifindex))))
	if answers, err = request(get); err != nil {
		return nil, fmt.Errorf("list NAPIs, which needs Linux 6.7: %w", err)
	}
	slices.SortFunc(answers, func(a, b attributes) int { return cmp.Compare(a.number(attrID), b.number(attrID)) })
	var pids []int
	for _, a := range answers {
		if pid := a.number(attrPID); pid != 0 {
			pids = append(pids, int(pid))
		}
	}
	return pids, nil
}

// attributes of an answer by type.
type attributes map[uint16][]byte

func (a attributes) number(attr uint16) uint32 {
	if v := a[attr]; len(v) == 4 {
		return binary.NativeEndian.Uint32(v)
	}
	return 0
}

// request sends a request and returns the answers. (The netlink package's own way
// ends a dump at the first message without NLM_F_MULTI, which this family never sets.)
func request(r *nl.NetlinkRequest) (all []attributes, err error) {
	s, err := nl.Subscribe(unix.NETLINK_GENERIC)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := s.Send(r); err != nil {
		return nil, err
	}
	dump := r.Flags&unix.NLM_F_DUMP == unix.NLM_F_DUMP
	for {
		msgs, _, err := s.Receive()
		if err != nil {
			return nil, err
		}
		for _, m := range msgs {
			switch {
			case m.Header.Type == unix.NLMSG_DONE:
				return all, nil
			case m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4:
				if errno := int32(binary.NativeEndian.Uint32(m.Data)); errno != 0 {
					return nil, unix.Errno(-errno)
				}
				return all, nil
			case len(m.Data) < nl.SizeofGenlmsg:
				continue
			}
			attrs, err := nl.ParseRouteAttr(m.Data[nl.SizeofGenlmsg:])
			if err != nil {
				return nil, err
			}
			a := attributes{}
			for _, x := range attrs {
				a[x.Attr.Type] = x.Value
			}
			all = append(all, a)
			if !dump {
				return all, nil
			}
		}
	}
}

// genlHeader is struct genlmsghdr: command, version, and two bytes that must be
// zero. (The netlink package's own type leaves these to chance.)
type genlHeader [nl.SizeofGenlmsg]byte

func (h genlHeader) Len() int          { return len(h) }
func (h genlHeader) Serialize() []byte { return h[:] }
