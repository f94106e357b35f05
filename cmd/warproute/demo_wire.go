package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
)

// wireCapture writes what passes an interface of a namespace to a file.
type wireCapture struct {
	fd   int
	file *os.File
	end  atomic.Bool
	done chan error
	saw  wireCounts
}

// wireCounts are the IP packets that passed, but for those by which neighbours are found.
type wireCounts struct{ esp, other int }

func captureAt(ns *lab.Namespace, link, path string) (*wireCapture, error) {
	c := &wireCapture{fd: -1, done: make(chan error, 1)}
	err := ns.Do(func() (err error) {
		l, err := ns.Link(link)
		if err != nil {
			return err
		}
		if c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20); err != nil {
			return err
		}
		if err := unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}); err != nil {
			return err
		}
		const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
		return unix.Bind(c.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: l.Attrs().Index})
	})
	if err == nil {
		c.file, err = os.Create(path)
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("capture what passes %s: %w", link, err)
	}
	go func() { c.done <- c.run() }()
	return c, nil
}

func (c *wireCapture) run() error {
	const snapLen = 1 << 16
	w := pcapgo.NewWriter(c.file)
	if err := w.WriteFileHeader(snapLen, layers.LinkTypeEthernet); err != nil {
		return err
	}
	b := make([]byte, snapLen)
	for {
		n, _, err := unix.Recvfrom(c.fd, b, 0)
		switch err {
		case nil:
		case unix.EAGAIN:
			if c.end.Load() {
				return nil
			}
			continue
		case unix.EINTR:
			continue
		default:
			return err
		}
		c.count(b[:n])
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Now(), CaptureLength: n, Length: n}, b[:n]); err != nil {
			return err
		}
	}
}

func (c *wireCapture) count(frame []byte) {
	if len(frame) < 34 {
		return
	}
	const esp, icmpv6 = 50, 58
	switch binary.BigEndian.Uint16(frame[12:]) {
	case unix.ETH_P_IP:
		if frame[14+9] == esp {
			c.saw.esp++
			return
		}
		c.saw.other++
	case unix.ETH_P_IPV6:
		if next := frame[14+6]; next != icmpv6 && next != 0 { // with multicast reports, which have options in front
			c.saw.other++
		}
	}
}

// stop ends the capture, when all that has passed is written.
func (c *wireCapture) stop() (wireCounts, error) {
	c.end.Store(true)
	err := <-c.done
	c.done <- nil
	return c.saw, err
}

func (c *wireCapture) close() {
	c.end.Store(true)
	if c.file != nil {
		<-c.done
		c.file.Close()
	}
	if c.fd >= 0 {
		unix.Close(c.fd)
	}
}
