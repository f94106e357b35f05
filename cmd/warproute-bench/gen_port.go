package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/bench/gen"
	"github.com/warproute/warproute/internal/cli"
)

// openGenPort opens IFACE or IFACE@NETNS, then calls complete, if not nil, in the port's namespace.
func openGenPort(name string, cores int, complete func(link string) error) (p *gen.Port, err error) {
	link, namespace, _ := strings.Cut(name, "@")
	err = inNamespace(namespace, func() (err error) {
		if p, err = gen.OpenPort(link, cores); err != nil || complete == nil {
			return err
		}
		if err = complete(link); err != nil {
			p.Close()
		}
		return err
	})
	return p, err
}

// inNamespace runs f in a network namespace of `ip netns`; "" is the current one.
func inNamespace(name string, f func() error) error {
	if name == "" {
		return f()
	}
	if name != filepath.Base(name) {
		return cli.UsageError(fmt.Errorf("network namespace %q: write a name of `ip netns`", name))
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		done <- func() error {
			fd, err := unix.Open(filepath.Join("/run/netns", name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("enter network namespace %s: not found (see `ip netns`)", name)
			}
			if err == nil {
				defer unix.Close(fd)
				err = unix.Setns(fd, unix.CLONE_NEWNET)
			}
			if errors.Is(err, unix.EPERM) { // the capabilities of `warproute doctor` are not enough
				err = fmt.Errorf("%w: needs root or CAP_SYS_ADMIN", err)
			}
			if err != nil {
				return fmt.Errorf("enter network namespace %s: %w", name, err)
			}
			return f()
		}()
	}()
	return <-done
}

// completeAt sets addresses that no flag sets. It runs in the namespace of the sending port.
func (f *genFlags) completeAt(link string) (err error) {
	if f.receiveOnly {
		return nil
	}
	if !f.traffic.Src.IsValid() {
		if f.traffic.Src, err = addressOf(link, f.traffic.Dst.Addr().Is6()); err != nil {
			return err
		}
	}
	if f.traffic.DstMAC == nil {
		f.traffic.DstMAC, err = nextHopMAC(link, f.traffic.FirstDst())
	}
	return err
}

// addressOf returns a global unicast address of a link.
func addressOf(link string, ipv6 bool) (netip.Prefix, error) {
	iface, err := net.InterfaceByName(link)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("look up port %s: %w", link, err)
	}
	addrs, err := iface.Addrs()
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("read the addresses of port %s: %w", link, err)
	}
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is6() == ipv6 && p.Addr().IsGlobalUnicast() {
			return gen.Host(p.Addr()), nil
		}
	}
	family := "IPv4"
	if ipv6 {
		family = "IPv6"
	}
	return netip.Prefix{}, fmt.Errorf("port %s has no %s address to send from: set --src", link, family)
}

// Timeout and interval of neighbor solicitations.
const (
	answerTime = 3 * time.Second
	askTime    = time.Second
)

// nextHopMAC returns the MAC address of the next hop to an address. Linux resolves it if necessary.
func nextHopMAC(link string, dst netip.Addr) (net.HardwareAddr, error) {
	wrap := func(err error) error {
		return fmt.Errorf("find the next hop of %v over %s: %w (or set --dst-mac)", dst, link, err)
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, wrap(fmt.Errorf("read this host's addresses: %w", err))
	}
	for _, a := range own {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr() == dst {
			return nil, wrap(errors.New("it is an address of this host"))
		}
	}
	routes, err := netlink.RouteGetWithOptions(dst.AsSlice(), &netlink.RouteGetOptions{Oif: link})
	switch {
	case err != nil:
		return nil, wrap(fmt.Errorf("get the route: %w", err))
	case len(routes) == 0:
		return nil, wrap(errors.New("no route"))
	}
	hop, index := dst, routes[0].LinkIndex
	if gw, ok := netip.AddrFromSlice(routes[0].Gw); ok {
		hop = gw.Unmap()
	} else if via, ok := routes[0].Via.(*netlink.Via); ok {
		hop, _ = netip.AddrFromSlice(via.Addr)
	}
	start, asked := time.Now(), time.Time{}
	for time.Since(start) < answerTime {
		mac, err := neighborMAC(index, hop)
		if mac != nil || err != nil {
			return mac, err
		}
		if time.Since(asked) >= askTime {
			asked = time.Now()
			n := &netlink.Neigh{LinkIndex: index, IP: hop.AsSlice(), Flags: netlink.NTF_USE}
			if err := netlink.NeighSet(n); err != nil {
				return nil, wrap(fmt.Errorf("resolve %v: %w", hop, err))
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, wrap(fmt.Errorf("%v did not answer within %v", hop, answerTime))
}

// neighborMAC returns the MAC address of a neighbor, nil if unknown.
func neighborMAC(link int, addr netip.Addr) (net.HardwareAddr, error) {
	const usable = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_PERMANENT | netlink.NUD_NOARP
	neighbors, err := netlink.NeighList(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("read the neighbors: %w", err)
	}
	for _, n := range neighbors {
		if a, _ := netip.AddrFromSlice(n.IP); a.Unmap() == addr && n.State&usable != 0 && len(n.HardwareAddr) == 6 {
			return n.HardwareAddr, nil
		}
	}
	return nil, nil
}
