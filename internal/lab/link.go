package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// End is one end of a veth pair.
type End struct {
	Namespace *Namespace
	Name      string
	MAC       net.HardwareAddr // nil: random
}

// VethOptions apply to both ends of a veth pair.
type VethOptions struct {
	Queues int // receive and transmit queues, 0: one
	MTU    int // 0: 1500
}

// Veth creates a veth pair with the kernel's default offloads and sets both ends up.
func Veth(a, b End, opts VethOptions) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr, attrs.MTU = a.Name, a.MAC, opts.MTU
	attrs.NumTxQueues, attrs.NumRxQueues = max(opts.Queues, 1), max(opts.Queues, 1)
	pair := netlink.NewVeth(attrs)
	pair.PeerName, pair.PeerHardwareAddr = b.Name, b.MAC
	pair.PeerNamespace = netlink.NsFd(b.Namespace.fd)
	if err := a.Namespace.netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("make veth pair %s in %q and %s in %q: %w", a.Name, a.Namespace.name, b.Name, b.Namespace.name, err)
	}
	if err := a.Namespace.SetUp(a.Name); err != nil {
		return err
	}
	return b.Namespace.SetUp(b.Name)
}

// Link finds a link by name.
func (ns *Namespace) Link(name string) (netlink.Link, error) {
	link, err := ns.netlink.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("find link %s in namespace %q: %w", name, ns.name, err)
	}
	return link, nil
}

// MAC returns a link's address.
func (ns *Namespace) MAC(name string) (net.HardwareAddr, error) {
	link, err := ns.Link(name)
	if err != nil {
		return nil, err
	}
	return link.Attrs().HardwareAddr, nil
}

// SetUp sets a link up.
func (ns *Namespace) SetUp(name string) error {
	return ns.onLink("set up", name, ns.netlink.LinkSetUp)
}

// SetDown sets a link down.
func (ns *Namespace) SetDown(name string) error {
	return ns.onLink("set down", name, ns.netlink.LinkSetDown)
}

// Move moves a link to another namespace, where it is down and has no address.
func (ns *Namespace) Move(name string, to *Namespace) error {
	return ns.onLink("move to namespace "+to.name, name, func(link netlink.Link) error {
		return ns.netlink.LinkSetNsFd(link, int(to.fd))
	})
}

func (ns *Namespace) onLink(what, name string, f func(netlink.Link) error) error {
	link, err := ns.Link(name)
	if err != nil {
		return err
	}
	if err := f(link); err != nil {
		return fmt.Errorf("%s link %s in namespace %q: %w", what, name, ns.name, err)
	}
	return nil
}

// AddAddr adds an address with its prefix length to a link. IPv6 addresses can be used at once, without
// duplicate address detection.
func (ns *Namespace) AddAddr(name string, addr netip.Prefix) error {
	return ns.onLink("add address "+addr.String()+" to", name, func(link netlink.Link) error {
		a := &netlink.Addr{IPNet: ipNet(addr)}
		if addr.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD
		}
		err := ns.netlink.AddrAdd(link, a)
		if err == nil && addr.Addr().Is6() && link.Attrs().Flags&net.FlagUp != 0 {
			err = ns.awaitLocal(addr.Addr())
		}
		return err
	})
}

// awaitLocal waits until Linux accepts packets to an IPv6 address. Sockets can bind it at once, but a
// kernel worker adds the local route later.
func (ns *Namespace) awaitLocal(a netip.Addr) error {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		routes, err := ns.netlink.RouteGet(a.AsSlice())
		if err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("10 s later, packets to it still go by %v: %w", routes, errors.Join(err, os.ErrDeadlineExceeded))
		}
	}
}

// AddRoute adds a route via a next hop on a connected network.
func (ns *Namespace) AddRoute(dst netip.Prefix, via netip.Addr) error {
	route := &netlink.Route{Dst: ipNet(dst.Masked()), Gw: via.AsSlice()}
	if err := ns.netlink.RouteAdd(route); err != nil {
		return fmt.Errorf("add route %s via %s in namespace %q: %w", dst, via, ns.name, err)
	}
	return nil
}

// AddNeighbor adds a permanent neighbor entry.
func (ns *Namespace) AddNeighbor(name string, addr netip.Addr, mac net.HardwareAddr) error {
	return ns.onLink("add neighbor "+addr.String()+" on", name, func(link netlink.Link) error {
		return ns.netlink.NeighSet(&netlink.Neigh{
			LinkIndex:    link.Attrs().Index,
			State:        netlink.NUD_PERMANENT,
			IP:           addr.AsSlice(),
			HardwareAddr: mac,
		})
	})
}

// Netlink returns the namespace's netlink handle, for everything without a method.
func (ns *Namespace) Netlink() *netlink.Handle { return ns.netlink }

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
