// Package pathmtu receives ICMP path MTU errors about packets that a gateway sent (RFC 1191,
// RFC 8201).
//
// The errors are addressed to the gateway, so Linux receives them, and copies them to one raw
// socket per family with a type filter. They can be forged; gateway.Learn validates them.
package pathmtu

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/ipsec/gateway"
)

// Watcher receives errors until Close.
type Watcher struct {
	conns []*net.IPConn
	done  sync.WaitGroup
}

// family describes ICMP or ICMPv6.
type family struct {
	network string
	filter  func(fd int) error // accepts one ICMP type
	parse   func(msg []byte) (gateway.TooBig, bool)
}

var families = []family{
	{"ip4:icmp", func(fd int) error {
		const icmpFilter, unreachable = 1, 3
		return unix.SetsockoptInt(fd, unix.SOL_RAW, icmpFilter, ^(1 << unreachable))
	}, parseIPv4},
	{"ip6:ipv6-icmp", func(fd int) error {
		const tooBig = 2
		var block unix.ICMPv6Filter
		for i := range block.Data {
			block.Data[i] = ^uint32(0)
		}
		block.Data[0] &^= 1 << tooBig
		return unix.SetsockoptICMPv6Filter(fd, unix.SOL_ICMPV6, unix.ICMPV6_FILTER, &block)
	}, parseIPv6},
}

// Watch calls report, on its own goroutines, for every error about ESP in the network namespace
// of the calling thread. It needs CAP_NET_RAW.
func Watch(report func(gateway.TooBig)) (*Watcher, error) {
	w := &Watcher{}
	for _, f := range families {
		conn, err := f.listen()
		if errors.Is(err, unix.EAFNOSUPPORT) { // a host without IPv6
			continue
		}
		if err != nil {
			w.Close()
			return nil, fmt.Errorf("listen for path MTU errors on %s: %w", f.network, err)
		}
		w.conns = append(w.conns, conn)
		w.done.Go(func() { f.receive(conn, report) })
	}
	return w, nil
}

// listen opens a raw socket with the filter.
func (f *family) listen() (*net.IPConn, error) {
	conn, err := net.ListenIP(f.network, nil)
	if err != nil {
		return nil, err
	}
	raw, err := conn.SyscallConn()
	if err == nil {
		err = errors.Join(raw.Control(func(fd uintptr) { err = f.filter(int(fd)) }), err)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// receive reads messages until the socket is closed.
func (f *family) receive(conn *net.IPConn, report func(gateway.TooBig)) {
	buf := make([]byte, 1<<11) // errors are shorter (RFC 1812 section 4.3.2.3, RFC 4443 section 3.2)
	for {
		n, from, err := conn.ReadFromIP(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if t, ok := f.parse(buf[:n]); err == nil && ok {
			t.From, _ = netip.AddrFromSlice(from.IP)
			t.From = t.From.Unmap()
			report(t)
		}
	}
}

// Close stops the watcher. No report follows its return.
func (w *Watcher) Close() {
	for _, c := range w.conns {
		c.Close()
	}
	w.done.Wait()
}
