package doctor

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/internal/placement"
)

// Link is a network interface to check.
type Link struct {
	Name       string
	Index      int
	MAC        net.HardwareAddr
	Loopback   bool
	Up         bool // administratively
	Carrier    bool
	MTU        int
	Driver     string         // "" if unknown
	Queues     int            // receive queues
	XDPQueues  int            // receive queues with a native XDP program
	TxQueues   int            // transmit queues
	MaxQueues  int            // maximum of receive queues
	Node       int            // NUMA node, or placement.Unknown
	Master     string         // "" for none
	MasterKind string         // kind of the master: "vrf", "bridge", ...
	XDP        string         // mode of an attached program, "" for none
	Attached   afxdp.Attached // that program, if not of a router
	IsRouter   bool           // that program is of a router
	Sockets    []int          // queues with an AF_XDP socket, if known
	Flags      uint32         // ETH_FLAG_...: enabled offloads
	Features   Features
	TagsUnread string // why stripped VLAN tags are not read in the mode of XDP, or in native mode; "" if they are

	Members []string // of a bond that is a port
	Bond    string   // of a member: the bond that is the port; set by Examine

	Refusal          *netdev.Refusal // why it cannot be a port, nil if it can
	PartialChecksums string          // this or a lower device that leaves L4 checksums incomplete; "" for none
	NoZeroCopy       error           // why zero-copy is not used though the driver has it, nil if it is
	Trial            *Trial          // nil if not tried
	Predicted        *Prediction     // nil if unknown; set by Examine
}

// findLink reads the state of an interface.
func findLink(name string) (*Link, error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		if _, none := errors.AsType[netlink.LinkNotFoundError](err); none {
			return nil, fmt.Errorf("this host has no interface %q", name)
		}
		return nil, fmt.Errorf("look up interface %q: %w", name, err)
	}
	a := l.Attrs()
	if a.Name != name { // the kernel also finds links by alternative names
		return nil, fmt.Errorf("%q is another name of interface %q: use that", name, a.Name)
	}
	link := &Link{
		Name: a.Name, Index: a.Index, MAC: a.HardwareAddr, MTU: a.MTU,
		Loopback: a.Flags&net.FlagLoopback != 0,
		Up:       a.Flags&net.FlagUp != 0,
		Carrier:  a.RawFlags&unix.IFF_LOWER_UP != 0,
	}
	if a.MasterIndex != 0 {
		master, err := netlink.LinkByIndex(a.MasterIndex)
		if err != nil {
			return nil, fmt.Errorf("look up the master of interface %q: %w", name, err)
		}
		link.Master, link.MasterKind = master.Attrs().Name, master.Type()
	}
	link.TagsUnread = afxdp.WhyTagsUnread(a.Index)
	program, mode, err := netdev.XDPProgram(a.Index)
	if err != nil {
		return nil, fmt.Errorf("read the XDP program of interface %q: %w", name, err)
	}
	if program != 0 {
		var readsTags bool
		link.XDP = mode
		link.IsRouter, readsTags = afxdp.RouterProgram(program)
		switch {
		case !link.IsRouter:
			link.Attached = afxdp.FindAttached(name, a.Index, mode, program)
		case mode == afxdp.Generic.String():
			link.TagsUnread = afxdp.UnreadGeneric
		case !readsTags && link.TagsUnread == "":
			link.TagsUnread = "the running router does not read them (warproute show ports says why)"
		}
	}
	if link.Queues, link.TxQueues, err = netdev.Queues(name); err != nil {
		return nil, err
	}
	if link.MaxQueues, err = netdev.MaxQueues(name); err != nil {
		return nil, err
	}
	netdev.WithSysfs(func(sysfs string) { link.Node = placement.InterfaceNode(sysfs, name) })
	driver := netdev.DriverOf(name)
	link.Driver, link.Flags = driver.Name, driver.Flags
	link.Features = readFeatures(a.Index)
	link.Sockets = queuesWithSockets(a.Index)
	link.Refusal, _ = errors.AsType[*netdev.Refusal](netdev.CheckPort(name))
	if link.Refusal == nil {
		if link.Members, err = netdev.Members(name); err != nil {
			return nil, err
		}
	}
	if link.XDPQueues, err = netdev.QueuesWithXDP(name); err != nil {
		return nil, err
	}
	link.NoZeroCopy = afxdp.CheckZeroCopy(name, link.MTU, link.XDPQueues-link.Queues)
	layers, err := netdev.Layers(name)
	if err != nil {
		return nil, err
	}
	if d, ok := netdev.UnfinishedChecksums(layers); ok {
		link.PartialChecksums = d.Name
		if d.Driver != "" {
			link.PartialChecksums = d.Driver + " " + d.Name
		}
	}
	return link, nil
}
