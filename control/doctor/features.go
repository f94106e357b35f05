package doctor

import (
	"encoding/binary"

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
	family, ok := genericNetlink(nl.GENL_ID_CTRL, nl.GENL_CTRL_CMD_GETFAMILY,
		nl.NewRtAttr(nl.GENL_CTRL_ATTR_FAMILY_NAME, nl.ZeroTerminated("netdev")), nl.GENL_CTRL_ATTR_FAMILY_ID)
	if !ok || len(family) != 2 {
		return f
	}
	features, ok := genericNetlink(binary.NativeEndian.Uint16(family), netdevCmdDevGet,
		nl.NewRtAttr(netdevAttrIfindex, nl.Uint32Attr(uint32(ifindex))), netdevAttrFeatures)
	if !ok || len(features) != 8 {
		return f
	}
	bits := binary.NativeEndian.Uint64(features)
	const native = netdevActBasic | netdevActRedirect
	return Features{Known: true, Native: bits&native == native, ZeroCopy: bits&netdevActXSKZeroCopy != 0}
}

// genlHeader is struct genlmsghdr: command, version, and two bytes that must be
// zero. (The netlink package's own type leaves these to chance.)
type genlHeader [nl.SizeofGenlmsg]byte

func (h genlHeader) Len() int          { return len(h) }
func (h genlHeader) Serialize() []byte { return h[:] }

// genericNetlink sends a command with one attribute to a family and returns the
// wanted attribute of the answer.
func genericNetlink(family uint16, command uint8, attr *nl.RtAttr, want uint16) (value []byte, ok bool) {
	req := nl.NewNetlinkRequest(int(family), 0)
	req.AddData(genlHeader{command, 1})
	req.AddData(attr)
	msgs, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil || len(msgs) != 1 || len(msgs[0]) < nl.SizeofGenlmsg {
		return nil, false
	}
	attrs, err := nl.ParseRouteAttr(msgs[0][nl.SizeofGenlmsg:])
	if err != nil {
		return nil, false
	}
	for _, a := range attrs {
		if a.Attr.Type == want {
			return a.Value, true
		}
	}
	return nil, false
}
