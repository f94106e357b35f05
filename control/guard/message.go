package guard

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// Constants of nf_tables messages (linux/netfilter/nf_tables.h). Numbers are big-endian; lengths
// are in bytes.
const (
	headerLen       = 4  // struct nfgenmsg: family, version, resource ID
	setID           = 1  // number of the set within a transaction
	typeIfname      = 41 // nft(8) data type "ifname"
	nameLen         = unix.IFNAMSIZ
	first           = -450 // priority before other tables
	last            = 300  // behind NAT
	hookInput       = 1
	hookForward     = 2
	hookPostrouting = 4
	portNATT        = 4500 // UDP port of IKE and ESP (RFC 3948)
	metaIIFKind     = 26   // NFT_META_IIFKIND, since Linux 5.6
	metaOIFKind     = 27   // NFT_META_OIFKIND
)

// hostEndian makes nft(8) print the names: type 0 (key byte order), 4 bytes, 1 (host byte order).
var hostEndian = binary.NativeEndian.AppendUint32([]byte{0, 4}, 1)

// message returns an nfgenmsg header followed by attributes.
func message(attrs ...[]byte) []byte {
	b := []byte{unix.NFPROTO_INET, unix.NFNETLINK_V0, 0, 0}
	for _, a := range attrs {
		b = append(b, a...)
	}
	return b
}

func attr(kind uint16, value []byte) []byte { return rtnl.AppendAttr(nil, kind, value) }

func text(kind uint16, s string) []byte { return attr(kind, append([]byte(s), 0)) }

func number(kind uint16, n uint32) []byte { return attr(kind, binary.BigEndian.AppendUint32(nil, n)) }

func nested(kind uint16, attrs ...[]byte) []byte {
	var b []byte
	for _, a := range attrs {
		b = append(b, a...)
	}
	return attr(kind|unix.NLA_F_NESTED, b)
}

// replacement returns the commands of a transaction that replaces the table by one with rules.
func replacement(names []string, rules []rule) []rtnl.Command {
	return replaceTable(table, rules,
		rtnl.Command{Kind: unix.NFT_MSG_NEWSET, Flags: unix.NLM_F_CREATE, Body: message(
			text(unix.NFTA_SET_TABLE, table), text(unix.NFTA_SET_NAME, set), number(unix.NFTA_SET_FLAGS, 0),
			number(unix.NFTA_SET_KEY_TYPE, typeIfname), number(unix.NFTA_SET_KEY_LEN, nameLen), number(unix.NFTA_SET_ID, setID),
			attr(unix.NFTA_SET_USERDATA, hostEndian),
		)},
		elements(unix.NFT_MSG_NEWSETELEM, names),
		chain(table, "forward", hookForward, first), chain(table, "input", hookInput, first), chain(table, "postrouting", hookPostrouting, last))
}

// replaceTable returns the commands that replace a table by one with sets and chains, and rules.
func replaceTable(table string, rules []rule, sets ...rtnl.Command) []rtnl.Command {
	name := text(unix.NFTA_TABLE_NAME, table)
	commands := append([]rtnl.Command{
		{Kind: unix.NFT_MSG_NEWTABLE, Flags: unix.NLM_F_CREATE, Body: message(name)}, // NFT_MSG_DELTABLE fails without a table
		{Kind: unix.NFT_MSG_DELTABLE, Body: message(name)},
		{Kind: unix.NFT_MSG_NEWTABLE, Flags: unix.NLM_F_CREATE, Body: message(name)},
	}, sets...)
	for _, r := range rules {
		commands = append(commands, rtnl.Command{Kind: unix.NFT_MSG_NEWRULE, Flags: unix.NLM_F_CREATE | unix.NLM_F_APPEND, Body: message(
			text(unix.NFTA_RULE_TABLE, table), text(unix.NFTA_RULE_CHAIN, r.chain), nested(unix.NFTA_RULE_EXPRESSIONS, r.expressions...),
		)})
	}
	return commands
}

// chain returns the command that creates a base chain with policy accept.
func chain(table, name string, hook uint32, priority int32) rtnl.Command {
	return rtnl.Command{Kind: unix.NFT_MSG_NEWCHAIN, Flags: unix.NLM_F_CREATE, Body: message(
		text(unix.NFTA_CHAIN_TABLE, table), text(unix.NFTA_CHAIN_NAME, name), text(unix.NFTA_CHAIN_TYPE, "filter"),
		nested(unix.NFTA_CHAIN_HOOK, number(unix.NFTA_HOOK_HOOKNUM, hook), number(unix.NFTA_HOOK_PRIORITY, uint32(priority))),
		number(unix.NFTA_CHAIN_POLICY, nfAccept),
	)}
}

// elements returns the command that adds names to the set, or deletes them.
func elements(kind uint16, names []string) rtnl.Command {
	var list [][]byte
	for _, name := range names {
		key := make([]byte, nameLen)
		copy(key, name)
		list = append(list, nested(unix.NFTA_LIST_ELEM, nested(unix.NFTA_SET_ELEM_KEY, attr(unix.NFTA_DATA_VALUE, key))))
	}
	flags := uint16(0)
	if kind == unix.NFT_MSG_NEWSETELEM {
		flags = unix.NLM_F_CREATE
	}
	return rtnl.Command{Kind: kind, Flags: flags, Body: message(
		text(unix.NFTA_SET_ELEM_LIST_TABLE, table), text(unix.NFTA_SET_ELEM_LIST_SET, set), number(unix.NFTA_SET_ELEM_LIST_SET_ID, setID),
		nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS, list...),
	)}
}

// elementNames returns the interface names in an NFT_MSG_NEWSETELEM message.
func elementNames(data []byte) (names []string, err error) {
	h, a := rtnl.Header(data, headerLen)
	if h == nil {
		return nil, fmt.Errorf("set element message: %w", a.Err)
	}
	walk(&a, unix.NFTA_SET_ELEM_LIST_ELEMENTS, func(a *rtnl.Attrs) {
		walk(a, unix.NFTA_LIST_ELEM, func(a *rtnl.Attrs) {
			walk(a, unix.NFTA_SET_ELEM_KEY, func(a *rtnl.Attrs) {
				walk(a, unix.NFTA_DATA_VALUE, func(a *rtnl.Attrs) { names = append(names, unix.ByteSliceToString(a.Value)) })
			})
		})
	})
	return names, a.Err
}

// walk calls f for each attribute of a kind nested in the current attribute of a, or for each
// top-level attribute before the first Next.
func walk(a *rtnl.Attrs, kind uint16, f func(inner *rtnl.Attrs)) {
	list := *a
	if a.Kind != 0 { // a is at an attribute: walk its nested attributes
		_, list = rtnl.Header(a.Value, 0)
	}
	for list.Next() {
		if list.Kind == kind {
			f(&list)
		}
	}
	if list.Err != nil {
		a.Err = list.Err
	}
}

// tableFlags returns the flags in an NFT_MSG_NEWTABLE message, such as dormant.
func tableFlags(data []byte) (flags uint32, err error) {
	h, a := rtnl.Header(data, headerLen)
	if h == nil {
		return 0, fmt.Errorf("table message: %w", a.Err)
	}
	for a.Next() {
		if a.Kind == unix.NFTA_TABLE_FLAGS && len(a.Value) == 4 {
			flags = binary.BigEndian.Uint32(a.Value)
		}
	}
	return flags, a.Err
}
