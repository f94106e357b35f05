package differential

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// bond is a bond of the router.
type bond struct {
	mode    string
	members []string
	active  []string // members that Linux considers active
}

// Bonds has lan in a VLAN of an active-backup bond, and wan and nar as bonds in modes balance-xor, of which a member
// has no carrier, and 802.3ad.
var Bonds = Ports{
	Name: "bonds in modes active-backup, balance-xor and 802.3ad", Kinds: 3, Modules: []string{"8021q", "bonding"}, configured: []string{"backup", "wan", "nar"},
	build: func(c *Contender) {
		c.bond(lanSide, "backup", "active-backup", 2)
		c.bond(wanSide, "wan", "balance-xor", 3)
		c.bond(narSide, "nar", "802.3ad", 2)
		require.NoError(c.t, c.hosts.SetDown("wan2"))
		for side, b := range c.bonds {
			c.awaitMembers(side, b)
		}
		of := c.sides[lanSide]
		c.vlan(lanSide, "backup", "802.1Q", 9, 0, tag{0x8100, 9})
		c.sides[lanSide].senders, c.sides[lanSide].backups = of.senders, of.backups
	},
}

// bond creates a bond of the router for a side. The hosts have one, too, if they need it for LACP.
func (c *Contender) bond(side int, name, mode string, members int) {
	c.t.Helper()
	b := &c.bonds[side]
	b.mode = mode
	commands := []string{"link add " + name + " type bond mode " + mode + " miimon 20"}
	for i := range members {
		m := name + strconv.Itoa(i)
		b.members = append(b.members, m)
		c.trunk(side, m, side, lab.VethOptions{})
		commands = append(commands, "link set "+m+" down", "link set "+m+" master "+name)
	}
	switch mode {
	case "active-backup":
		commands = append(commands, "link set "+name+" type bond primary "+b.members[1])
	case "802.3ad":
		commands = append(commands, "link set "+name+" type bond lacp_rate fast")
		labtest.IP(c.t, c.hosts, "link add lacp type bond mode 802.3ad miimon 20 lacp_rate fast")
		for _, m := range b.members {
			labtest.IP(c.t, c.hosts, "link set "+m+" down", "link set "+m+" master lacp")
		}
		labtest.IP(c.t, c.hosts, "link set lacp up")
	}
	c.ip(append(commands, "link set "+name+" address "+routerMAC(side).String(), "link set "+name+" up")...)
}

// awaitMembers waits until Linux considers the expected members active, by which hosts then send.
func (c *Contender) awaitMembers(side int, b bond) {
	c.t.Helper()
	want := b.members[:2]
	if b.mode == "active-backup" {
		want = b.members[1:2]
	}
	labtest.Eventually(c.t, time.Minute, "the active members of the bond are "+want[0], func() bool { return slices.Equal(c.activeMembers(b), want) })
	c.bonds[side].active = want
	c.sides[side].senders = nil
	for i, s := range c.sockets {
		switch {
		case slices.Contains(want, s.link):
			c.sides[side].senders = append(c.sides[side].senders, i)
		case slices.Contains(b.members[:2], s.link):
			c.sides[side].backups = append(c.sides[side].backups, i)
		}
	}
}

// activeMembers returns the members of a bond of the router that Linux considers active.
func (c *Contender) activeMembers(b bond) (names []string) {
	c.t.Helper()
	const distributing = 0x20 // IEEE 802.1AX
	var links []struct {
		Name     string `json:"ifname"`
		LinkInfo struct {
			Slave struct {
				State string `json:"state"`
				MII   string `json:"mii_status"`
				Actor int    `json:"ad_actor_oper_port_state"`
			} `json:"info_slave_data"`
		} `json:"linkinfo"`
	}
	require.NoError(c.t, json.Unmarshal([]byte(labtest.Run(c.t, c.Router, "ip", "-d", "-j", "link", "show")), &links))
	for _, l := range links {
		s := l.LinkInfo.Slave
		if slices.Contains(b.members, l.Name) && s.MII == "UP" && s.State == "ACTIVE" && (b.mode != "802.3ad" || s.Actor&distributing != 0) {
			names = append(names, l.Name)
		}
	}
	slices.Sort(names)
	return names
}
