package netdev

import (
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Attributes are the attributes of a generic netlink message, by type.
type Attributes map[uint16][]byte

// Uint32 returns a 32-bit attribute, 0 if it is missing.
func (a Attributes) Uint32(attr uint16) uint32 {
	if v := a[attr]; len(v) == 4 {
		return binary.NativeEndian.Uint32(v)
	}
	return 0
}

// Get sends a command with one attribute to the kernel's netdev family (linux/netdev.h) and
// returns the reply. The family exists since Linux 6.3.
func Get(command uint8, attr *nl.RtAttr) (Attributes, error) {
	replies, err := query(command, 0, attr)
	if err == nil && len(replies) != 1 {
		err = fmt.Errorf("netdev generic netlink command %d: %d replies, want one", command, len(replies))
	}
	if err != nil {
		return nil, err
	}
	return replies[0], nil
}

// Dump sends a dump command with one attribute to the kernel's netdev family and returns all
// replies.
func Dump(command uint8, attr *nl.RtAttr) ([]Attributes, error) {
	return query(command, unix.NLM_F_DUMP, attr)
}

// query sends a request to the netdev family and returns the replies. It does not use the
// netlink package's Execute, which ends a dump at the first message without NLM_F_MULTI: the
// netdev family never sets that flag.
func query(command uint8, flags int, attr *nl.RtAttr) (replies []Attributes, err error) {
	family, err := netlink.GenlFamilyGet("netdev")
	if err != nil {
		return nil, fmt.Errorf("look up the netdev generic netlink family: %w", err)
	}
	s, err := nl.Subscribe(unix.NETLINK_GENERIC)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r := nl.NewNetlinkRequest(int(family.ID), flags)
	r.AddData(genlHeader{command, 1})
	r.AddData(attr)
	if err := s.Send(r); err != nil {
		return nil, err
	}
	for {
		msgs, _, err := s.Receive()
		if err != nil {
			return nil, err
		}
		for _, m := range msgs {
			switch {
			case m.Header.Type == unix.NLMSG_DONE:
				return replies, nil
			case m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4:
				if errno := int32(binary.NativeEndian.Uint32(m.Data)); errno != 0 {
					return nil, unix.Errno(-errno)
				}
				return replies, nil
			case len(m.Data) < nl.SizeofGenlmsg:
				continue
			}
			attrs, err := nl.ParseRouteAttr(m.Data[nl.SizeofGenlmsg:])
			if err != nil {
				return nil, err
			}
			a := Attributes{}
			for _, x := range attrs {
				a[x.Attr.Type&nl.NLA_TYPE_MASK] = x.Value
			}
			replies = append(replies, a)
			if flags&unix.NLM_F_DUMP == 0 {
				return replies, nil
			}
		}
	}
}

// genlHeader is struct genlmsghdr: command, version and two reserved bytes. The type of the
// netlink package leaves the reserved bytes uninitialized.
type genlHeader [nl.SizeofGenlmsg]byte

func (h genlHeader) Len() int          { return len(h) }
func (h genlHeader) Serialize() []byte { return h[:] }
