// Package genl asks the kernel's generic netlink families.
package genl

import (
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Attributes are those of one answer, by type.
type Attributes map[uint16][]byte

// Uint32 returns a number of 32 bits, 0 where there is none.
func (a Attributes) Uint32(attr uint16) uint32 {
	if v := a[attr]; len(v) == 4 {
		return binary.NativeEndian.Uint32(v)
	}
	return 0
}

// Get sends a command with one attribute to a family and returns the answer.
func Get(family string, command uint8, attr *nl.RtAttr) (Attributes, error) {
	all, err := ask(family, command, 0, attr)
	if err != nil {
		return nil, err
	}
	if len(all) != 1 {
		return nil, fmt.Errorf("the kernel's %s family gave %d answers to one question", family, len(all))
	}
	return all[0], nil
}

// Dump sends a command with one attribute to a family and returns all answers.
func Dump(family string, command uint8, attr *nl.RtAttr) ([]Attributes, error) {
	return ask(family, command, unix.NLM_F_DUMP, attr)
}

func ask(family string, command uint8, flags int, attr *nl.RtAttr) ([]Attributes, error) {
	name := nl.NewRtAttr(nl.GENL_CTRL_ATTR_FAMILY_NAME, nl.ZeroTerminated(family))
	answers, err := request(nl.GENL_ID_CTRL, nl.GENL_CTRL_CMD_GETFAMILY, 0, name)
	if err != nil {
		return nil, fmt.Errorf("find the kernel's %s family: %w", family, err)
	}
	if len(answers) != 1 || len(answers[0][nl.GENL_CTRL_ATTR_FAMILY_ID]) != 2 {
		return nil, fmt.Errorf("find the kernel's %s family: no number in the answer", family)
	}
	return request(int(binary.NativeEndian.Uint16(answers[0][nl.GENL_CTRL_ATTR_FAMILY_ID])), command, flags, attr)
}

// request sends a request and returns the answers. (The netlink package's own way
// ends a dump at the first message without NLM_F_MULTI, which some families never
// set.)
func request(family int, command uint8, flags int, attr *nl.RtAttr) (all []Attributes, err error) {
	s, err := nl.Subscribe(unix.NETLINK_GENERIC)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r := nl.NewNetlinkRequest(family, flags)
	r.AddData(header{command, 1})
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
			a := Attributes{}
			for _, x := range attrs {
				a[x.Attr.Type&nl.NLA_TYPE_MASK] = x.Value
			}
			all = append(all, a)
			if flags&unix.NLM_F_DUMP == 0 {
				return all, nil
			}
		}
	}
}

// header is struct genlmsghdr: command, version, and two bytes that must be zero.
// (The netlink package's own type leaves these to chance.)
type header [nl.SizeofGenlmsg]byte

func (h header) Len() int          { return len(h) }
func (h header) Serialize() []byte { return h[:] }
