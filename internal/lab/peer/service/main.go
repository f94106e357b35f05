// Command service runs in a peer: it serves a TCP echo, and has the sockets that a kernel needs to receive ESP
// in UDP. With the arguments "BYTES FROM,TO ..." it exchanges bytes with echoes instead.
package main

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab/echo"
)

func main() {
	var err error
	if len(os.Args) > 1 {
		err = exchange(os.Args[1], os.Args[2:])
	} else {
		err = serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	const natPort = 4500
	for _, any := range []unix.Sockaddr{&unix.SockaddrInet4{Port: natPort}, &unix.SockaddrInet6{Port: natPort}} {
		if err := receiveESP(any); err != nil {
			return fmt.Errorf("receive ESP at UDP port %d: %w", natPort, err)
		}
	}
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", echo.Port))
	if err != nil {
		return err
	}
	return echo.Serve(l)
}

// receiveESP binds a UDP socket with UDP_ENCAP, from which the kernel receives ESP. It stays open.
func receiveESP(at unix.Sockaddr) error {
	_, six := at.(*unix.SockaddrInet6)
	family := unix.AF_INET
	if six {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	if six {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return err
		}
	}
	const udpEncap, espInUDP = 100, 2 // UDP_ENCAP, UDP_ENCAP_ESPINUDP
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, udpEncap, espInUDP); err != nil {
		return err
	}
	return unix.Bind(fd, at)
}
