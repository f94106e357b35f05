// Package guard installs an nftables table that keeps Linux from forwarding packets from and to
// the ports of a gateway.
//
// Without it, Linux could forward protected packets in cleartext past the IPsec policies. The
// table remains after the router exits or crashes.
//
//	table inet warproute {
//	    set ports { type ifname; elements = { "lan0", "wan0" } }
//	    chain forward { type filter hook forward priority -450; policy accept;
//	        iifname @ports counter drop
//	        oifname @ports counter drop
//	    }
//	    chain input { type filter hook input priority -450; policy accept;
//	        iifname @ports meta l4proto esp counter drop
//	        iifname @ports udp dport 4500 @th,64,32 != 0 counter drop
//	    }
//	    chain postrouting { type filter hook postrouting priority 300; policy accept;
//	        oifname @ports rt ipsec exists counter drop
//	    }
//	}
//
// The rules match interface names, so they apply as soon as an interface of the name exists. The
// input chain drops ESP, so that Linux does not decrypt packets with SAs from a key daemon, and the
// postrouting chain drops packets of the host that Linux would encrypt with them: two senders would
// use the sequence numbers of an SA, and the peer would drop packets of either as replays. IKE passes,
// and so do packets that Linux has encrypted. A kernel without XFRM encrypts nothing, and gets no such
// rule.
package guard

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// TableName is the family and the name of the table, as nft(8) prints them.
const TableName = "inet " + table

const (
	table = "warproute"
	set   = "ports"
)

// Own reports whether a table, as nft(8) prints it, is one of this package.
func Own(name string) bool { return name == TableName || name == "inet "+startTable }

// Table is the nftables table of one network namespace. It is not safe for concurrent use.
type Table struct {
	conn  *rtnl.Conn
	rules []rule // that the kernel can have
}

// Open returns the table of the calling thread's network namespace. It requires CAP_NET_ADMIN.
func Open() (*Table, error) {
	conn, err := rtnl.DialFamily(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, explain("reach nftables", err)
	}
	return &Table{conn, allRules}, nil
}

// Close closes the netlink connection. The table remains.
func (t *Table) Close() error { return t.conn.Close() }

// Guarded returns the sorted names of the interfaces in the table.
func (t *Table) Guarded() ([]string, error) {
	names, _, err := t.read()
	return names, err
}

// Guard adds interfaces to the table; they need not exist. It replaces a damaged or missing
// table in one transaction. changed reports whether it changed the table.
func (t *Table) Guard(names ...string) (changed bool, err error) {
	have, intact, err := t.read()
	if err != nil {
		return false, err
	}
	var commands []rtnl.Command
	if intact {
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(have, name) })
		if len(names) == 0 {
			return false, nil
		}
		commands = append(commands, elements(unix.NFT_MSG_NEWSETELEM, names))
	} else {
		commands = replacement(append(have, names...), t.rules)
	}
	err = t.conn.Batch(unix.NFNL_SUBSYS_NFTABLES, commands...)
	if !intact && errors.Is(err, unix.EOPNOTSUPP) && slices.ContainsFunc(t.rules, needsXFRM) {
		t.rules = slices.DeleteFunc(slices.Clone(t.rules), needsXFRM)
		err = t.conn.Batch(unix.NFNL_SUBSYS_NFTABLES, replacement(append(have, names...), t.rules)...)
	}
	return true, explain(fmt.Sprintf("have the nftables table %s drop what Linux would forward from or to %q", TableName, names), err)
}

// Release removes interfaces from the table, so that Linux forwards by its settings again. With the
// last interface it deletes the table, and undoes GuardStacked.
func (t *Table) Release(names ...string) error {
	have, _, err := t.read()
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(have), func(name string) bool { return slices.Contains(names, name) })
	gone := slices.DeleteFunc(slices.Clone(have), func(name string) bool { return slices.Contains(left, name) })
	if len(left) == 0 {
		if err := t.ReleaseStacked(); err != nil || len(have) == 0 {
			return err
		}
	}
	var command rtnl.Command
	switch {
	case len(left) == 0:
		command = rtnl.Command{Kind: unix.NFT_MSG_DELTABLE, Body: message(text(unix.NFTA_TABLE_NAME, table))}
	case len(gone) == 0:
		return nil
	default:
		command = elements(unix.NFT_MSG_DELSETELEM, gone)
	}
	return explain(fmt.Sprintf("release %q from the nftables table %s", gone, TableName), t.conn.Batch(unix.NFNL_SUBSYS_NFTABLES, command))
}

// read returns the interfaces in the table. intact reports whether the table exists with all
// rules and is not dormant. It may have more rules, of another version of the router.
func (t *Table) read() (names []string, intact bool, err error) {
	const kind = unix.NFNL_SUBSYS_NFTABLES << 8
	err = t.conn.Do(kind|unix.NFT_MSG_GETTABLE, 0, message(text(unix.NFTA_TABLE_NAME, table)), func(msg rtnl.Message) error {
		flags, err := tableFlags(msg.Data)
		intact = flags == 0
		return err
	})
	if errors.Is(err, unix.ENOENT) {
		return nil, false, nil
	}
	if err == nil {
		err = t.conn.Dump(rtnl.NewQuery(kind|unix.NFT_MSG_GETSETELEM, message(text(unix.NFTA_SET_ELEM_LIST_TABLE, table), text(unix.NFTA_SET_ELEM_LIST_SET, set))),
			func(msg rtnl.Message) error {
				more, err := elementNames(msg.Data)
				names = append(names, more...)
				return err
			})
		if errors.Is(err, unix.ENOENT) {
			return nil, false, nil
		}
	}
	found := 0
	if err == nil {
		err = t.conn.Dump(rtnl.NewQuery(kind|unix.NFT_MSG_GETRULE, message(text(unix.NFTA_RULE_TABLE, table))), func(msg rtnl.Message) error {
			if msg.Type == kind|unix.NFT_MSG_NEWRULE {
				found++
			}
			return nil
		})
	}
	slices.Sort(names)
	return slices.Compact(names), intact && found >= len(t.rules), explain("read the nftables table "+TableName, err)
}

func needsXFRM(r rule) bool { return r.xfrm }

// explain adds the failed operation, and a hint if one is known, to an error.
func explain(what string, err error) error {
	if err == nil {
		return nil
	}
	for _, no := range []error{unix.EPROTONOSUPPORT, unix.EOPNOTSUPP, unix.EAFNOSUPPORT, unix.EINVAL} {
		if errors.Is(err, no) {
			return fmt.Errorf("%s: %w (a kernel with nf_tables is needed: `modprobe nf_tables`, or CONFIG_NF_TABLES_INET; without it, set ipsec.linux_forwarding: allow and keep Linux's forwarding off)", what, err)
		}
	}
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%s: %w (run as root, or with CAP_NET_ADMIN)", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
