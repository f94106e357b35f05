package rtnl

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Rule is a policy routing rule (RTM_NEWRULE, RTM_DELRULE).
type Rule struct {
	Family   uint8
	Priority uint32
	Table    uint32
	Plain    bool // exactly "from all lookup Table"
}

// Parse parses the data of a rule message.
func (r *Rule) Parse(data []byte) error {
	const action = 7 // of struct fib_rule_hdr, 12 bytes: family, dst_len, src_len, tos, table, 2 reserved, action, flags
	*r = Rule{}
	h, a := Header(data, 12)
	if h != nil {
		r.Family = h[0]
		r.Table = uint32(h[4])
		r.Plain = h[1]|h[2]|h[3] == 0 && h[action] == unix.FR_ACT_TO_TBL && binary.NativeEndian.Uint32(h[8:]) == 0
	}
	for a.Next() {
		switch a.Kind {
		case unix.FRA_PRIORITY:
			r.Priority = a.Uint32()
		case unix.FRA_TABLE:
			r.Table = a.Uint32()
		case unix.FRA_SUPPRESS_PREFIXLEN, unix.FRA_SUPPRESS_IFGROUP:
			r.Plain = r.Plain && a.Uint32() == 0xffffffff // unset
		case unix.FRA_PROTOCOL, unix.FRA_PAD:
		default:
			r.Plain = false
		}
	}
	return wrap("rule message", a.Err)
}
