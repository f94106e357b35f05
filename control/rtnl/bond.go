package rtnl

import "golang.org/x/sys/unix"

// Modes of a bond (linux/if_bonding.h) in which each flow has one member.
const (
	BondActiveBackup = 1
	BondXOR          = 2
	Bond8023AD       = 4
)

// Bond is the state of a bond (IFLA_INFO_DATA).
type Bond struct {
	Mode       uint8  // BondActiveBackup, ...
	Active     int    // index of the active member, 0 for none; of active-backup and the balancing modes tlb and alb
	Aggregator uint16 // active aggregator of 802.3ad
	AllActive  bool   // backup members receive, too (all_slaves_active)
}

// BondMember is the state of a member of a bond (IFLA_INFO_SLAVE_DATA).
type BondMember struct {
	Backup     bool   // Linux does not transmit on it
	Failed     bool   // its link monitor does not report it as up
	Aggregator uint16 // of 802.3ad
}

// parse parses IFLA_INFO_DATA of a bond.
func (b *Bond) parse(list *Attrs) {
	data := Attrs{rest: list.Value}
	for data.Next() {
		switch {
		case data.Kind == unix.IFLA_BOND_MODE && len(data.Value) > 0:
			b.Mode = data.Value[0]
		case data.Kind == unix.IFLA_BOND_ACTIVE_SLAVE:
			b.Active = int(int32(data.Uint32()))
		case data.Kind == unix.IFLA_BOND_ALL_SLAVES_ACTIVE && len(data.Value) > 0:
			b.AllActive = data.Value[0] != 0
		case data.Kind == unix.IFLA_BOND_AD_INFO:
			for info := (Attrs{rest: data.Value}); info.Next(); {
				if info.Kind == unix.IFLA_BOND_AD_INFO_AGGREGATOR {
					b.Aggregator = info.uint16()
				}
			}
		}
	}
	if data.Err != nil {
		list.Err = data.Err
	}
}

// parse parses IFLA_INFO_SLAVE_DATA of a member of a bond.
func (m *BondMember) parse(list *Attrs) {
	data := Attrs{rest: list.Value}
	for data.Next() {
		switch {
		case data.Kind == unix.IFLA_BOND_SLAVE_STATE && len(data.Value) > 0:
			m.Backup = data.Value[0] != 0 // BOND_STATE_BACKUP
		case data.Kind == unix.IFLA_BOND_SLAVE_MII_STATUS && len(data.Value) > 0:
			m.Failed = data.Value[0] != 0 // BOND_LINK_FAIL, BOND_LINK_DOWN, BOND_LINK_BACK
		case data.Kind == unix.IFLA_BOND_SLAVE_AD_AGGREGATOR_ID:
			m.Aggregator = data.uint16()
		}
	}
	if data.Err != nil {
		list.Err = data.Err
	}
}
