package guard

import (
	"errors"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// startTable keeps Linux from forwarding from and to every interface of a kind that can be on a port (sameWire), such as VLANs. Unless
// a gateway runs, nobody follows which are on ports: they can be created at any time, with any name.
//
//	table inet warproute-start {
//	    chain forward { type filter hook forward priority -450; policy accept;
//	        iifkind "vlan" counter drop
//	        oifkind "vlan" counter drop
//	        ...
//
// A running gateway deletes it once its XDP programs drop packets of unknown VLANs, and creates it again when it ends. Bridges and
// VRFs on VLANs are not among them: their packets are forwarded until a gateway runs.
const startTable = "warproute-start"

// GuardStacked keeps Linux from forwarding packets from and to VLANs and the like, on any interface, until ReleaseStacked or a
// gateway runs.
func (t *Table) GuardStacked() error {
	var rules []rule
	for _, kind := range slices.Sorted(maps.Keys(sameWire)) {
		rules = append(rules, rule{chain: "forward", expressions: drop(ofKind(metaIIFKind, kind))}, rule{chain: "forward", expressions: drop(ofKind(metaOIFKind, kind))})
	}
	return explain("have the nftables table inet "+startTable+" drop what Linux would forward from or to VLANs",
		t.conn.Batch(unix.NFNL_SUBSYS_NFTABLES, replaceTable(startTable, rules, chain(startTable, "forward", hookForward, first))...))
}

// GuardsStacked reports whether Linux is kept from forwarding packets from and to all VLANs and the like.
func (t *Table) GuardsStacked() (bool, error) {
	const kind = unix.NFNL_SUBSYS_NFTABLES << 8
	err := t.conn.Do(kind|unix.NFT_MSG_GETTABLE, 0, message(text(unix.NFTA_TABLE_NAME, startTable)), func(rtnl.Message) error { return nil })
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil, explain("read the nftables table inet "+startTable, err)
}

// ReleaseStacked undoes GuardStacked.
func (t *Table) ReleaseStacked() error {
	err := t.conn.Batch(unix.NFNL_SUBSYS_NFTABLES, rtnl.Command{Kind: unix.NFT_MSG_DELTABLE, Body: message(text(unix.NFTA_TABLE_NAME, startTable))})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return explain("delete the nftables table inet "+startTable, err)
}
