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
	Ingress  string // iif: only packets that this interface receives; "" for all packets
	Plain    bool   // "lookup Table", without another condition than Ingress
	VRFs     bool   // exactly "from all lookup [l3mdev-table]": packets of a VRF, by its table
}

// Flags of struct fib_rule_hdr.
const (
	ruleInvert   = 2 // "not": the conditions must not hold
	ruleDetached = 8 // the ingress interface does not exist
)

// Parse parses the data of a rule message.
func (r *Rule) Parse(data []byte) error {
	const l3mdev = 19 // FRA_L3MDEV
	const action = 7  // of struct fib_rule_hdr, 12 bytes: family, dst_len, src_len, tos, table, 2 reserved, action, flags
	*r = Rule{}
	h, a := Header(data, 12)
	var flags uint32
	if h != nil {
		r.Family = h[0]
		r.Table = uint32(h[4])
		flags = binary.NativeEndian.Uint32(h[8:])
		r.Plain = h[1]|h[2]|h[3] == 0 && h[action] == unix.FR_ACT_TO_TBL && flags&^ruleDetached == 0
	}
	for a.Next() {
		switch a.Kind {
		case unix.FRA_PRIORITY:
			r.Priority = a.Uint32()
		case unix.FRA_TABLE:
			r.Table = a.Uint32()
		case unix.FRA_SUPPRESS_PREFIXLEN, unix.FRA_SUPPRESS_IFGROUP:
			r.Plain = r.Plain && a.Uint32() == 0xffffffff // unset
		case unix.FRA_IIFNAME:
			r.Ingress = a.text()
		case unix.FRA_PROTOCOL, unix.FRA_PAD:
		case l3mdev:
			r.VRFs = len(a.Value) == 1 && a.Value[0] == 1
		default:
			r.Plain = false
		}
	}
	if flags&ruleInvert != 0 {
		r.Ingress = "" // it is of packets of all others
	}
	r.Plain, r.VRFs = r.Plain && !r.VRFs, r.Plain && r.VRFs && r.Ingress == ""
	return wrap("rule message", a.Err)
}
