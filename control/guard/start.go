package guard

import (
	"errors"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// startTable applies the rules of the table to every interface of a kind that can be on a port (sameWire), such as VLANs. Before
// the router runs, nobody follows which are: those on ports can be created at any time, with any name.
//
//	table inet warproute-start {
//	    chain forward { type filter hook forward priority -450; policy accept;
//	        iifkind "vlan" counter drop
//	        oifkind "vlan" counter drop
//	        ...
//
// A running gateway deletes it once its XDP programs drop packets of unknown VLANs.
const startTable = "warproute-start"

// GuardStacked keeps Linux from forwarding packets from and to VLANs and the like, on any interface, until ReleaseStacked or a
// gateway runs.
func (t *Table) GuardStacked() error {
	var rules []rule
	for _, kind := range slices.Sorted(maps.Keys(sameWire)) {
		rules = append(rules, rulesFor(ofKind(metaIIFKind, kind), ofKind(metaOIFKind, kind))...)
	}
	err := t.conn.Batch(unix.NFNL_SUBSYS_NFTABLES, replaceTable(startTable, rules)...)
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = t.conn.Batch(unix.NFNL_SUBSYS_NFTABLES, replaceTable(startTable, slices.DeleteFunc(rules, needsXFRM))...)
	}
	return explain("have the nftables table inet "+startTable+" drop what Linux would forward from or to VLANs", err)
}

// ReleaseStacked undoes GuardStacked.
func (t *Table) ReleaseStacked() error {
	err := t.conn.Batch(unix.NFNL_SUBSYS_NFTABLES, rtnl.Command{Kind: unix.NFT_MSG_DELTABLE, Body: message(text(unix.NFTA_TABLE_NAME, startTable))})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return explain("delete the nftables table inet "+startTable, err)
}
