package doctor

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/internal/ethtool"
	"github.com/warproute/warproute/internal/netdev"
)

// Link is a network interface as the checks see it.
type Link struct {
	Name     string
	Index    int
	MAC      net.HardwareAddr
	Loopback bool
	Up       bool // by the administrator
	Carrier  bool
	MTU      int
	Driver   string         // "" where unknown
	Queues   int            // that it receives on
	TxQueues int            // that it transmits on
	Master   string         // the link that it belongs to, "" for none
	MasterIs string         // the kind of that: "vrf", "bridge", ...
	XDP      string         // the mode of a program that is attached already, "" for none
	Attached afxdp.Attached // it, if it is not a router's
	Ours     bool           // that program is a router's
	Sockets  []int          // queues that have an AF_XDP socket, where the kernel tells
	Flags    uint32         // unix ETH_FLAG_...: offloads that are on
	Features Features

	Refusal *netdev.Refusal // why it cannot be a port, nil if it can be
	Soft    string          // the device, it or one below, that leaves L4 checksums unfinished; "" for none
	Cuts    error           // how zero-copy would cut packets, nil if not
	Trial   *Trial          // of XDP on it, nil where that was not tried
}

// findLink reads what the kernel tells of an interface.
func findLink(name string) (*Link, error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		if _, none := errors.AsType[netlink.LinkNotFoundError](err); none {
			return nil, fmt.Errorf("this host has no interface %q", name)
		}
		return nil, fmt.Errorf("look up interface %q: %w", name, err)
	}
	a := l.Attrs()
	if a.Name != name { // the kernel finds links by their alternative names, too; a router takes the one that it logs
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
		link.Master, link.MasterIs = master.Attrs().Name, master.Type()
	}
	program, mode, err := netdev.XDPProgram(a.Index)
	if err != nil {
		return nil, fmt.Errorf("read the XDP program of interface %q: %w", name, err)
	}
	if program != 0 {
		link.XDP, link.Ours = mode, afxdp.IsRouterProgram(program)
		if !link.Ours {
			link.Attached = afxdp.FindAttached(name, a.Index, mode, program)
		}
	}
	if link.Queues, link.TxQueues, err = ethtool.Queues(name); err != nil {
		return nil, err
	}
	link.Driver, link.Flags = ethtool.Driver(name)
	link.Features = readFeatures(a.Index)
	link.Sockets = queuesWithSockets(a.Index)
	link.Refusal, _ = errors.AsType[*netdev.Refusal](netdev.CheckPort(name))
	link.Cuts = afxdp.CheckZeroCopy(name, link.MTU)
	layers, err := netdev.Layers(name)
	if err != nil {
		return nil, err
	}
	if d, ok := netdev.UnfinishedChecksums(layers); ok {
		link.Soft = d.Name
		if d.Driver != "" {
			link.Soft = d.Driver + " " + d.Name
		}
	}
	return link, nil
}
