// Package netdev queries and configures Linux network devices: lower devices, drivers and queues
// (ethtool), carrier, XDP programs, threaded NAPI. Devices are looked up in the network namespace
// of the calling thread.
package netdev

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vishvananda/netlink"
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

// list returns all devices of the namespace, by index, without their drivers.
func list() (map[int]*Device, error) {
	var links []netlink.Link
	var err error = netlink.ErrDumpInterrupted
	for try := 0; try < attempts && errors.Is(err, netlink.ErrDumpInterrupted); try++ {
		links, err = netlink.LinkList()
	}
	if err != nil {
		return nil, fmt.Errorf("list the network devices: %w", err)
	}
	all := make(map[int]*Device, len(links))
	for _, l := range links {
		a := l.Attrs()
		all[a.Index] = &Device{
			Index: a.Index, Name: a.Name, Kind: l.Type(), Lower: a.ParentIndex, Master: a.MasterIndex,
			Foreign: a.ParentIndex != 0 && a.NetNsID >= 0,
			Up:      a.RawFlags&unix.IFF_UP != 0, Loopback: a.RawFlags&unix.IFF_LOOPBACK != 0, Ethernet: a.EncapType == "ether",
		}
		if b, ok := l.(*netlink.Bond); ok {
			all[a.Index].Mode = b.Mode.String()
		}
	}
	for _, d := range all {
		if m := all[d.Master]; m != nil {
			d.MemberOf = m.Kind
		}
	}
	return all, nil
}

// Devices returns all devices of the namespace, sorted by index, without their drivers.
func Devices() ([]Device, error) {
	all, err := list()
	if err != nil {
		return nil, err
	}
	devices := make([]Device, 0, len(all))
	for _, i := range slices.Sorted(maps.Keys(all)) {
		devices = append(devices, *all[i])
	}
	return devices, nil
}

// find returns the device with a name, and all devices.
func find(name string) (*Device, map[int]*Device, error) {
	all, err := list()
	if err != nil {
		return nil, nil, err
	}
	for _, d := range all {
		if d.Name == name {
			return d, all, nil
		}
	}
	return nil, nil, fmt.Errorf("this network namespace has no interface %q", name)
}

// Layers returns an interface and all its lower devices: the parent of a VLAN or macvlan, the
// members of a bond, team or bridge.
func Layers(name string) ([]Device, error) {
	top, all, err := find(name)
	if err != nil {
		return nil, err
	}
	layers := below(all, top)
	for i := range layers {
		layers[i].Driver = DriverOf(layers[i].Name).Name
	}
	return layers, nil
}

// onLower are the kinds of devices that send and receive through the IFLA_LINK device. (The
// IFLA_LINK of a veth is its peer, that of a tunnel the device of its route.)
var onLower = map[string]bool{"vlan": true, "macvlan": true, "macvtap": true, "ipvlan": true, "ipvtap": true, "macsec": true, "hsr": true}

// below returns a device and its lower devices, each once.
func below(all map[int]*Device, top *Device) []Device {
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
			add(all[d.Lower])
		}
		if d.Kind == "vrf" {
			continue // packets of the members do not pass the vrf device
		}
		for _, member := range all {
			if member.Master == d.Index {
				add(member)
			}
		}
	}
	return layers
}
