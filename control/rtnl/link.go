package rtnl

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Link is a network interface (RTM_NEWLINK, RTM_DELLINK).
type Link struct {
	Family   uint8 // unix.AF_UNSPEC; AF_BRIDGE: the message describes a bridge port
	Index    int
	Flags    uint32 // unix.IFF_...
	Name     string
	Address  [6]byte // MAC address; zero for a link without an Ethernet address
	MTU      uint32  // in bytes
	Master   int     // index of the master, 0 for none
	Parent   int     // index of the parent (veth: the peer), 0 for none or another namespace
	Kind     string  // "vlan", "veth", ...; "" for hardware
	Forced6  bool    // net.ipv6.conf.NAME.force_forwarding (Linux 6.17): forward IPv6 regardless of conf.all.forwarding
	SlaveOf  string  // kind of the master, if reported: "vrf", "bridge", "bond"
	VRFTable uint32  // of a VRF (kind "vrf")
	IfID     uint32  // of an XFRM interface (kind "xfrm")
	Foreign  bool    // its other end, or the SAs of an XFRM interface, are in another network namespace

	MacvlanMode  uint32 // of kind "macvlan"
	VLANID       uint16 // of kind "vlan"
	VLANProtocol uint16 // EtherType of the tags of kind "vlan": 0x8100, 0x88a8

	Bond   Bond       // of kind "bond"
	Member BondMember // of a member of a bond (SlaveOf "bond")
}

// InVRF reports whether the link belongs to a VRF, whose table routes the received packets.
func (l *Link) InVRF() bool { return l.SlaveOf == "vrf" }

// Claimed reports whether Linux routes packets received on the link as packets of its master: a
// VRF, bond or team.
func (l *Link) Claimed() bool { return l.InVRF() || l.SlaveOf == "bond" || l.SlaveOf == "team" }

// Up reports whether Linux routing considers the link up: set up and with a carrier.
func (l *Link) Up() bool {
	return l.Flags&unix.IFF_UP != 0 && l.Flags&(unix.IFF_RUNNING|unix.IFF_LOWER_UP) != 0
}

// Parse parses the data of a link message.
func (l *Link) Parse(data []byte) error {
	*l = Link{}
	h, a := Header(data, unix.SizeofIfInfomsg)
	if h != nil {
		l.Family = h[0]
		l.Index = int(int32(binary.NativeEndian.Uint32(h[4:])))
		l.Flags = binary.NativeEndian.Uint32(h[8:])
	}
	for a.Next() {
		switch a.Kind {
		case unix.IFLA_IFNAME:
			l.Name = a.text()
		case unix.IFLA_MTU:
			l.MTU = a.Uint32()
		case unix.IFLA_ADDRESS:
			if len(a.Value) == len(l.Address) {
				copy(l.Address[:], a.Value)
			}
		case unix.IFLA_MASTER:
			l.Master = int(int32(a.Uint32()))
		case unix.IFLA_LINK:
			l.Parent = int(int32(a.Uint32()))
		case unix.IFLA_LINK_NETNSID:
			l.Foreign = true
		case unix.IFLA_AF_SPEC:
			l.parseFamilies(&a)
		case unix.IFLA_LINKINFO:
			l.parseInfo(&a)
		}
	}
	if l.Foreign {
		l.Parent = 0
	}
	return wrap("link message", a.Err)
}

// parseFamilies parses IFLA_AF_SPEC. IPv6 settings are an array of 32-bit numbers in host byte
// order.
func (l *Link) parseFamilies(list *Attrs) {
	const forceForwarding = 4 * 59 // DEVCONF_FORCE_FORWARDING of linux/ipv6.h
	for family := (Attrs{rest: list.Value}); family.Next(); {
		if family.Kind != unix.AF_INET6 {
			continue
		}
		for a := (Attrs{rest: family.Value}); a.Next(); {
			if a.Kind == unix.IFLA_INET6_CONF && len(a.Value) >= forceForwarding+4 {
				l.Forced6 = binary.NativeEndian.Uint32(a.Value[forceForwarding:]) != 0
			}
		}
	}
}

// parseInfo parses IFLA_LINKINFO: the kind of the link and of its master.
func (l *Link) parseInfo(list *Attrs) {
	const infoData = 2 // IFLA_INFO_DATA
	a := Attrs{rest: list.Value}
	for a.Next() {
		switch a.Kind {
		case infoData: // the kind comes first
			switch l.Kind {
			case "xfrm":
				l.parseXFRM(&a)
			case "vlan":
				l.parseVLAN(a.Value)
			case "macvlan":
				l.parseMacvlan(a.Value)
			case "bond":
				l.Bond.parse(&a)
			case "vrf":
				l.parseVRF(&a)
			}
		case unix.IFLA_INFO_KIND:
			l.Kind = a.text()
		case unix.IFLA_INFO_SLAVE_KIND:
			l.SlaveOf = a.text()
		case unix.IFLA_INFO_SLAVE_DATA: // the kind comes first
			if l.SlaveOf == "bond" {
				l.Member.parse(&a)
			}
		}
	}
	if a.Err != nil {
		list.Err = a.Err
	}
}

// parseXFRM parses the if_id of an XFRM interface. One in mode external (collect_metadata) has none.
func (l *Link) parseXFRM(list *Attrs) {
	const ifID = 2 // IFLA_XFRM_IF_ID
	data := Attrs{rest: list.Value}
	for data.Next() {
		if data.Kind == ifID {
			l.IfID = data.Uint32()
		}
	}
	if data.Err != nil {
		list.Err = data.Err
	}
}

// parseVRF parses the table of a VRF.
func (l *Link) parseVRF(list *Attrs) {
	const table = 1 // IFLA_VRF_TABLE
	data := Attrs{rest: list.Value}
	for data.Next() {
		if data.Kind == table {
			l.VRFTable = data.Uint32()
		}
	}
	if data.Err != nil {
		list.Err = data.Err
	}
}

// Modes of a macvlan (IFLA_MACVLAN_MODE).
const (
	MacvlanPassthru = 8
	MacvlanSource   = 16
)

// parseMacvlan parses IFLA_INFO_DATA of a macvlan.
func (l *Link) parseMacvlan(data []byte) {
	const mode = 1 // IFLA_MACVLAN_MODE
	for a := (Attrs{rest: data}); a.Next(); {
		if a.Kind == mode && len(a.Value) >= 4 {
			l.MacvlanMode = binary.NativeEndian.Uint32(a.Value)
		}
	}
}

// parseVLAN parses IFLA_INFO_DATA of a VLAN: its ID in host byte order, the EtherType in network byte order.
func (l *Link) parseVLAN(data []byte) {
	for a := (Attrs{rest: data}); a.Next(); {
		switch {
		case len(a.Value) < 2:
		case a.Kind == unix.IFLA_VLAN_ID:
			l.VLANID = binary.NativeEndian.Uint16(a.Value)
		case a.Kind == unix.IFLA_VLAN_PROTOCOL:
			l.VLANProtocol = binary.BigEndian.Uint16(a.Value)
		}
	}
}

// Address is an address of an interface (RTM_NEWADDR, RTM_DELADDR).
type Address struct {
	Index int
	Local netip.Addr
}

// Parse parses the data of an address message.
func (r *Address) Parse(data []byte) error {
	*r = Address{}
	h, a := Header(data, unix.SizeofIfAddrmsg)
	if h != nil {
		r.Index = int(int32(binary.NativeEndian.Uint32(h[4:])))
	}
	for a.Next() {
		switch a.Kind {
		case unix.IFA_LOCAL:
			r.Local = a.addr()
		case unix.IFA_ADDRESS: // peer address on IPv4 point-to-point links, else the local address
			if !r.Local.IsValid() {
				r.Local = a.addr()
			}
		}
	}
	return wrap("address message", a.Err)
}
