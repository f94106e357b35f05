// Package pathmtu receives ICMP path MTU errors about packets that a gateway sent (RFC 1191,
// RFC 8201).
//
// The errors are addressed to the gateway, so Linux receives them. It reports those that quote a
// protocol in the error queue of raw sockets of this protocol, also where a filter of the cgroup
// refuses packets of other hosts (IPAddressDeny= of systemd). They can be forged; gateway.Learn
// validates them.
package pathmtu

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/ipsec/gateway"
)

// Watcher receives errors until Close.
type Watcher struct {
	sockets []*os.File
	done    sync.WaitGroup
}

// family is how errors of an address family are received.
type family struct {
	name                              string
	domain                            int
	level, receive, discover, include int // socket options
	parse                             func(icmpError) (gateway.TooBig, bool)
}

var families = []family{
	{"IPv4", unix.AF_INET, unix.SOL_IP, unix.IP_RECVERR, unix.IP_MTU_DISCOVER, unix.IP_HDRINCL, parseIPv4},
	{"IPv6", unix.AF_INET6, unix.SOL_IPV6, unix.IPV6_RECVERR, unix.IPV6_MTU_DISCOVER, unix.IPV6_HDRINCL, parseIPv6},
}

// Watch calls report with errors that quote ESP or ESP in UDP, from several goroutines. It needs CAP_NET_RAW.
func Watch(report func(gateway.TooBig)) (*Watcher, error) {
	w := &Watcher{}
	for _, f := range families {
		for _, proto := range []int{protoESP, unix.IPPROTO_UDP} {
			s, err := f.open(proto)
			if errors.Is(err, unix.EAFNOSUPPORT) { // a host without IPv6
				continue
			}
			if err != nil {
				w.Close()
				return nil, fmt.Errorf("listen for path MTU errors of %s about protocol %d: %w", f.name, proto, err)
			}
			w.sockets = append(w.sockets, s)
			w.done.Go(func() { f.watch(s, report) })
		}
	}
	return w, nil
}

// open returns a socket that receives errors about a protocol, and no packets.
func (f *family) open(proto int) (*os.File, error) {
	fd, err := unix.Socket(f.domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, proto)
	if err != nil {
		return nil, err
	}
	discard := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	err = errors.Join(
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &discard}),
		unix.SetsockoptInt(fd, f.level, f.receive, 1),
		unix.SetsockoptInt(fd, f.level, f.include, 1),                           // the IP header of the quote
		unix.SetsockoptInt(fd, f.level, f.discover, unix.IP_PMTUDISC_INTERFACE)) // Linux does not apply IPv4 errors to its own routes
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	var buf [1]byte
	for err == nil { // packets from before the filter
		_, _, err = unix.Recvfrom(fd, buf[:], 0)
	}
	return os.NewFile(uintptr(fd), "path MTU errors"), nil
}

// watch reports the errors of a socket until it is closed.
func (f *family) watch(s *os.File, report func(gateway.TooBig)) {
	raw, err := s.SyscallConn()
	if err != nil { // closed
		return
	}
	quote := make([]byte, 1<<11) // errors are shorter (RFC 1812 section 4.3.2.3, RFC 4443 section 3.2)
	control := make([]byte, 1<<8)
	for {
		var n, used int
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			n, used, _, _, failed = unix.Recvmsg(int(fd), quote, control, unix.MSG_ERRQUEUE)
			return failed != unix.EAGAIN && failed != unix.EINTR
		})
		if err != nil {
			return
		}
		if failed != nil {
			continue
		}
		e, from, ok := f.decode(control[:used])
		if e.quote = quote[:n]; !ok {
			continue
		}
		if t, ok := f.parse(e); ok {
			t.From = from
			report(t)
		}
	}
}

// decode returns the error in a control message, and the router that sent it.
func (f *family) decode(control []byte) (e icmpError, from netip.Addr, ok bool) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return e, from, false
	}
	for _, m := range messages {
		if int(m.Header.Level) == f.level && int(m.Header.Type) == f.receive {
			return decodeExtended(m.Data)
		}
	}
	return e, from, false
}

// Close ends reports.
func (w *Watcher) Close() {
	for _, s := range w.sockets {
		s.Close()
	}
	w.done.Wait()
}
