// Package netdev queries and configures Linux network devices: lower devices, drivers and queues
// (ethtool), carrier, XDP programs, threaded NAPI. Devices are looked up in the network namespace
// of the calling thread.
package netdev

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Device is a network device.
type Device struct {
	Index   int
	Name    string
	Kind    string // IFLA_INFO_KIND: "vlan", "bond", "veth", ...; "device" for hardware
	Driver  string // reported by ethtool, "" if unknown
	Lower   int    // IFLA_LINK: index of the lower device, 0 for none
	Foreign bool   // the lower device is in another network namespace
	Master  int    // IFLA_MASTER: index of the master, 0 for none
	// MemberOf is the kind of the master: "bond", "team", "bridge", "vrf".
	MemberOf string
	Mode     string // of a bond: "active-backup", "802.3ad", ...
	Up       bool   // set up, with or without carrier
	Loopback bool
	Ethernet bool // has a MAC address
}

// attempts limits the retries of a dump that a concurrent change interrupted.
const attempts = 10

// retry repeats a dump that a concurrent change has interrupted.
func retry[T any](dump func() (T, error)) (all T, err error) {
	err = netlink.ErrDumpInterrupted
	for try := 0; try < attempts && errors.Is(err, netlink.ErrDumpInterrupted); try++ {
		all, err = dump()
	}
	return all, err
}

// deviceOf describes a link, without its driver and the kind of its master.
func deviceOf(l netlink.Link) Device {
	a := l.Attrs()
	d := Device{
		Index: a.Index, Name: a.Name, Kind: l.Type(), Lower: a.ParentIndex, Master: a.MasterIndex,
		Foreign: a.ParentIndex != 0 && a.NetNsID >= 0,
		Up:      a.RawFlags&unix.IFF_UP != 0, Loopback: a.RawFlags&unix.IFF_LOOPBACK != 0, Ethernet: a.EncapType == "ether",
	}
	if b, ok := l.(*netlink.Bond); ok {
		d.Mode = b.Mode.String()
	}
	return d
}

// namespace looks up the devices of a network namespace.
type namespace interface {
	device(index int) *Device         // nil for none
	members(master *Device) []*Device // by index
}

// kernel looks up one device at a time, so that thousands of others take no time. It keeps the first error.
type kernel struct{ err error }

// find returns the device with a name.
func (k *kernel) find(name string) (*Device, error) {
	l, err := linkByName(name)
	if err != nil {
		return nil, err
	}
	d := k.complete(l)
	return d, k.err
}

// linkByName returns the link with a name, which is not an alternative name.
func linkByName(name string) (netlink.Link, error) {
	if name == "" || len(name) >= unix.IFNAMSIZ {
		return nil, notFound(name)
	}
	l, err := retry(func() (netlink.Link, error) { return netlink.LinkByName(name) })
	if _, none := errors.AsType[netlink.LinkNotFoundError](err); none || err == nil && l.Attrs().Name != name {
		return nil, notFound(name)
	}
	if err != nil {
		return nil, fmt.Errorf("look up interface %q: %w", name, err)
	}
	return l, nil
}

func notFound(name string) error {
	return fmt.Errorf("this network namespace has no interface %q", name)
}

func (k *kernel) device(index int) *Device {
	l, err := netlink.LinkByIndex(index)
	if err != nil {
		if _, none := errors.AsType[netlink.LinkNotFoundError](err); !none {
			k.err = cmp.Or(k.err, fmt.Errorf("look up interface %d: %w", index, err))
		}
		return nil
	}
	return k.complete(l)
}

// complete describes a link with the kind of its master.
func (k *kernel) complete(l netlink.Link) *Device {
	d := deviceOf(l)
	if d.Master != 0 {
		if master, err := netlink.LinkByIndex(d.Master); err == nil {
			d.MemberOf = master.Type()
		}
	}
	return &d
}

func (k *kernel) members(master *Device) (members []*Device) {
	messages, err := retry(func() ([][]byte, error) {
		r := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
		r.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		r.AddData(nl.NewRtAttr(unix.IFLA_MASTER, nl.Uint32Attr(uint32(master.Index))))
		return r.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	})
	for _, m := range messages {
		var l netlink.Link
		if l, err = netlink.LinkDeserialize(nil, m); err != nil {
			break
		}
		if d := deviceOf(l); d.Master == master.Index {
			d.MemberOf = master.Kind
			members = append(members, &d)
		}
	}
	if err != nil {
		k.err = cmp.Or(k.err, fmt.Errorf("list the members of %s: %w", master.Name, err))
	}
	slices.SortFunc(members, func(a, b *Device) int { return cmp.Compare(a.Index, b.Index) })
	return members
}

// InterfaceByName is net.InterfaceByName without a list of all interfaces.
func InterfaceByName(name string) (*net.Interface, error) {
	l, err := linkByName(name)
	if err != nil {
		return nil, err
	}
	a := l.Attrs()
	return &net.Interface{Index: a.Index, MTU: a.MTU, Name: a.Name, HardwareAddr: a.HardwareAddr, Flags: a.Flags}, nil
}

// HasIPv4 reports whether an interface has an IPv4 address. Linux only reads those of the interface.
func HasIPv4(name string) (bool, error) {
	if labelled(name) == nil {
		return true, nil
	}
	return hasIPv4(name)
}

// labelled returns an error unless an IPv4 address has the name of its interface as the label, which is the default.
func labelled(name string) error {
	r, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	return withSocket(func(fd int) error { return unix.IoctlIfreq(fd, unix.SIOCGIFADDR, r) })
}

// hasIPv4 is HasIPv4 by netlink, which takes ten times as long.
func hasIPv4(name string) (bool, error) {
	l, err := linkByName(name)
	if err != nil {
		return false, err
	}
	s, err := nl.Subscribe(unix.NETLINK_ROUTE)
	if err != nil {
		return false, fmt.Errorf("open a netlink socket: %w", err)
	}
	defer s.Close()
	if err := unix.SetsockoptInt(s.GetFd(), unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1); err != nil {
		return false, fmt.Errorf("set strict netlink requests: %w", err)
	}
	has, err := retry(func() (bool, error) {
		r := nl.NewNetlinkRequest(unix.RTM_GETADDR, unix.NLM_F_DUMP)
		r.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: s}}
		of := nl.NewIfAddrmsg(unix.AF_INET)
		of.Index = uint32(l.Attrs().Index)
		r.AddData(of)
		messages, err := r.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWADDR)
		return len(messages) > 0, err
	})
	if err != nil {
		return false, fmt.Errorf("list the addresses of %s: %w", name, err)
	}
	return has, nil
}

// Layers returns an interface and all its lower devices: the parent of a VLAN or macvlan, the
// members of a bond, team or bridge.
func Layers(name string) ([]Device, error) {
	var k kernel
	top, err := k.find(name)
	if err != nil {
		return nil, err
	}
	layers := below(&k, top)
	if k.err != nil {
		return nil, k.err
	}
	for i := range layers {
		layers[i].Driver = DriverOf(layers[i].Name).Name
	}
	return layers, nil
}

// onLower are the kinds of devices that send and receive through the IFLA_LINK device. (The
// IFLA_LINK of a veth is its peer, that of a tunnel the device of its route.)
var onLower = map[string]bool{"vlan": true, "macvlan": true, "macvtap": true, "ipvlan": true, "ipvtap": true, "macsec": true, "hsr": true}

// below returns a device and its lower devices, each once.
func below(in namespace, top *Device) []Device {
	layers, seen := []Device{*top}, map[int]bool{top.Index: true}
	add := func(d *Device) {
		if d != nil && !seen[d.Index] {
			seen[d.Index] = true
			layers = append(layers, *d)
		}
	}
	for i := 0; i < len(layers); i++ {
		d := layers[i]
		if onLower[d.Kind] && !d.Foreign {
			add(in.device(d.Lower))
		}
		if d.Kind == "vrf" {
			continue // packets of the members do not pass the vrf device
		}
		for _, member := range in.members(&d) {
			add(member)
		}
	}
	return layers
}
