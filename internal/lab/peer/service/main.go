// Command service is what a peer has besides its kernel: an echo over TCP, and the
// sockets without which a kernel does not take ESP from UDP. Given an address with
// its port and a number of bytes, it exchanges them with such an echo instead.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab/echo"
)

func main() {
	var err error
	if len(os.Args) == 3 {
		err = exchange(os.Args[1], os.Args[2])
	} else {
		err = serve(":7", 4500)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(1)
	}
}

func serve(address string, port int) error {
	for _, any := range []unix.Sockaddr{&unix.SockaddrInet4{Port: port}, &unix.SockaddrInet6{Port: port}} {
		if err := takeESP(any); err != nil {
			return fmt.Errorf("have UDP port %d take ESP: %w", port, err)
		}
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return echo.Serve(l)
}

// takeESP binds a UDP socket from which the kernel takes ESP. It stays open.
func takeESP(at unix.Sockaddr) error {
	family := unix.AF_INET
	if _, six := at.(*unix.SockaddrInet6); six {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	if family == unix.AF_INET6 {
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

func exchange(address, bytes string) error {
	n, err := strconv.Atoi(bytes)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var d net.Dialer
	d.SetMultipathTCP(false)
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return echo.Exchange(ctx, conn, n)
}
