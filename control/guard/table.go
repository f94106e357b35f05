// Package guard keeps Linux from forwarding packets from and to the ports of a gateway, so
// that what policies protect does not leave in cleartext past the router: by a table of
// nftables, which stays when the router ends, however it ends.
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
//	}
//
// The rules name interfaces, so they hold from the moment that an interface of the name
// exists. The input chain keeps ESP from Linux: it is the router's alone, also where a key
// daemon gave Linux the keys. IKE passes.
package guard

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// TableName is the name of the table, with its family in front, as nft(8) writes it.
const TableName = "inet " + table

const (
	table = "warproute"
	set   = "ports"
)

// Table is the table of one network namespace. It belongs to one goroutine at a time.
type Table struct{ conn *rtnl.Conn }

// Open returns the table of the calling thread's network namespace. It takes CAP_NET_ADMIN.
func Open() (*Table, error) {
	conn, err := rtnl.DialFamily(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, explain("reach nftables", err)
	}
	return &Table{conn}, nil
}

// Close closes the connection to the table, which stays as it is.
func (t *Table) Close() error { return t.conn.Close() }

// Guarded returns the interfaces from and to which Linux forwards nothing, sorted.
func (t *Table) Guarded() ([]string, error) {
	names, _, err := t.read()
	return names, err
}

// Guard adds interfaces to those from and to which Linux forwards nothing; they need not
// exist. Where the table is not as it should be, it is replaced in one transaction.
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
		commands = replacement(append(have, names...))
	}
	return true, explain(fmt.Sprintf("have the nftables table %s drop what Linux would forward from or to %q", TableName, names),
		t.conn.Batch(unix.NFNL_SUBSYS_NFTABLES, commands...))
}

// Release lets Linux forward again as its settings say, from and to these interfaces. The
// table goes with its last interface.
func (t *Table) Release(names ...string) error {
	have, _, err := t.read()
	if err != nil || len(have) == 0 {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(have), func(name string) bool { return slices.Contains(names, name) })
	gone := slices.DeleteFunc(slices.Clone(have), func(name string) bool { return slices.Contains(left, name) })
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

// read returns the interfaces in the table, and whether the table is there with all rules,
// and not dormant.
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
	return slices.Compact(names), intact && found == len(rules), explain("read the nftables table "+TableName, err)
}

// explain says what failed, and how to help where that is known.
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
