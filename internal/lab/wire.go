package lab

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// PacketSocket opens a socket that sends frames on a link and receives all its frames. The caller closes
// it.
func (ns *Namespace) PacketSocket(link string) (fd int, err error) {
	fd = -1
	err = ns.Do(func() error {
		l, err := ns.Link(link)
		if err != nil {
			return err
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: l.Attrs().Index})
	})
	if err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		return -1, fmt.Errorf("open a packet socket at %s in namespace %q: %w", link, ns.name, err)
	}
	return fd, nil
}

const (
	longestFrame = 1 << 16
	listenRoom   = 64 << 20              // receive buffer in bytes
	listenTurn   = 50 * time.Millisecond // read timeout
	listenLast   = time.Second           // maximum time of a stop
)

// Listen calls each with every frame on a link from now on, and whether it was sent by the link; the
// frame is valid until each returns. stop ends it after all frames so far, and must be called once.
func (ns *Namespace) Listen(link string, each func(frame []byte, out bool)) (stop func(), err error) {
	fd, err := ns.PacketSocket(link)
	if err != nil {
		return nil, err
	}
	turn := unix.NsecToTimeval(int64(listenTurn))
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, listenRoom); err == nil {
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &turn)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("listen at %s in namespace %q: %w", link, ns.name, err)
	}
	var until atomic.Int64 // Unix time in ns; 0: not stopped
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, longestFrame)
		for {
			n, from, err := unix.Recvfrom(fd, buf, 0)
			if errors.Is(err, unix.EINTR) { // by a signal of the runtime
				continue
			}
			if end := until.Load(); end != 0 && (err != nil || time.Now().UnixNano() > end) {
				return
			}
			if err == nil { // else a timeout, or the link is down
				at, ok := from.(*unix.SockaddrLinklayer)
				each(buf[:n], ok && at.Pkttype == unix.PACKET_OUTGOING)
			}
		}
	}()
	return func() {
		until.Store(time.Now().Add(listenLast).UnixNano())
		<-done
		unix.Close(fd)
	}, nil
}
