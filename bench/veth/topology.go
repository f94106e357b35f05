package veth

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/bench/xdpgen"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/packet"
)

// network is the destination of the load, behind the server.
var network = netip.MustParsePrefix("10.50.0.0/16")

// topology is the namespaces around a router.
type topology struct {
	*lab.Topology
	header  []byte
	closers []func() error
}

func (b *topology) close() {
	for i := len(b.closers) - 1; i >= 0; i-- {
		_ = b.closers[i]()
	}
}

// prepare sets static neighbors, so that only the load is on the links, and builds the frames' header.
func (b *topology) prepare() error {
	clientMAC, err1 := b.Client.MAC(lab.ClientLink)
	lanMAC, err2 := b.Router.MAC(lab.LAN)
	wanMAC, err3 := b.Router.MAC(lab.WAN)
	serverMAC, err4 := b.Server.MAC(lab.ServerLink)
	err := errors.Join(err1, err2, err3, err4,
		b.Router.AddNeighbor(lab.LAN, lab.Client4.Addr(), clientMAC),
		b.Router.AddNeighbor(lab.WAN, lab.Server4.Addr(), serverMAC),
		b.Client.AddNeighbor(lab.ClientLink, lab.LAN4.Addr(), lanMAC),
		b.Server.AddNeighbor(lab.ServerLink, lab.WAN4.Addr(), wanMAC),
		b.Router.AddRoute(network, lab.Server4.Addr()))
	if err != nil {
		return err
	}
	h := make([]byte, xdpgen.HeaderLen)
	copy(h, lanMAC)
	copy(h[6:], clientMAC)
	binary.BigEndian.PutUint16(h[12:], uint16(packet.EtherTypeIPv4))
	ip := h[packet.EthernetLen:]
	ip[0], ip[8], ip[9] = 0x45, 64, byte(packet.UDP)
	binary.BigEndian.PutUint16(ip[2:], frameLen-packet.EthernetLen)
	copy(ip[12:], lab.Client4.Addr().AsSlice())
	copy(ip[16:], network.Addr().AsSlice())
	binary.BigEndian.PutUint16(ip[10:], packet.Checksum(ip[:packet.IPv4Len]))
	binary.BigEndian.PutUint16(ip[20:], 1024)
	binary.BigEndian.PutUint16(ip[22:], 9) // discard
	binary.BigEndian.PutUint16(ip[24:], frameLen-packet.EthernetLen-packet.IPv4Len)
	b.header = h
	return nil
}

// index returns the interface index of a link.
func index(ns *lab.Namespace, link string) (int, error) {
	l, err := ns.Link(link)
	if err != nil {
		return 0, err
	}
	return l.Attrs().Index, nil
}

func (b *topology) sender() (s *xdpgen.Sender, err error) {
	err = b.Client.Do(func() error {
		i, err := index(b.Client, lab.ClientLink)
		if err == nil {
			s, err = xdpgen.NewSender(i, b.header, frameLen, flows)
		}
		return err
	})
	return s, err
}

// counter counts the frames at the server or, if atServer is false, at lan0. A thread on the sender's
// core counts at the server.
func (b *topology) counter(atServer bool) (p *xdpgen.Program, err error) {
	ns, link := b.Router, lab.LAN
	if atServer {
		ns, link = b.Server, lab.ServerLink
	}
	p, err = attachTo(ns, link, xdpgen.AttachCount)
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, p.Close)
	if !atServer {
		return p, nil
	}
	// A timer wakes the thread. Otherwise the router would send an interrupt per burst.
	for setting, value := range map[string]string{"napi_defer_hard_irqs": "1000000", "gro_flush_timeout": "20000"} {
		if err := ns.Sysfs("class/net/"+link+"/"+setting, value); err != nil {
			return nil, err
		}
	}
	return p, b.thread(ns, link, senderCore, 1) // with priority over the sender
}

func attachTo(ns *lab.Namespace, link string, attach func(ifindex int) (*xdpgen.Program, error)) (p *xdpgen.Program, err error) {
	err = ns.Do(func() error {
		i, err := index(ns, link)
		if err == nil {
			p, err = attach(i)
		}
		return err
	})
	return p, err
}

// thread runs a link's NAPI in a kernel thread on one core, with a real-time priority above 0. The link
// must receive by NAPI, as a veth does with native XDP.
func (b *topology) thread(ns *lab.Namespace, link string, core, priority int) error {
	return ns.Do(func() error {
		i, err := index(ns, link)
		if err != nil {
			return err
		}
		_, err = netdev.ThreadNAPI(link, i, func(int) int { return core }, priority) // the link ends with its namespace
		return err
	})
}

// verify sends frames until one is forwarded, and compares it with the expected one.
func (b *topology) verify(rewrites bool) error {
	out, err := packetSocket(b.Server, lab.ServerLink)
	if err != nil {
		return err
	}
	defer unix.Close(out)
	in, err := packetSocket(b.Client, lab.ClientLink)
	if err != nil {
		return err
	}
	defer unix.Close(in)
	sent := make([]byte, frameLen)
	copy(sent, b.header)
	buf := make([]byte, 2048)
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		if err := unix.Send(in, sent, 0); err != nil && !errors.Is(err, unix.ENOBUFS) { // queue full
			return fmt.Errorf("send a frame: %w", err)
		}
		time.Sleep(5 * time.Millisecond)
		for {
			n, _, err := unix.Recvfrom(out, buf, unix.MSG_DONTWAIT)
			if err != nil {
				break
			}
			got := buf[:n]
			if n < frameLen || !bytes.Equal(got[packet.EthernetLen+packet.IPv4Len:], sent[packet.EthernetLen+packet.IPv4Len:]) {
				continue // another frame
			}
			if want := b.expect(sent, rewrites); !bytes.Equal(got, want) {
				return fmt.Errorf("wrong frame:\n in   % x\n want % x\n got  % x", sent, want, got)
			}
			return nil
		}
	}
	return errors.New("no frame forwarded in 5 s")
}

// expect returns the forwarded frame.
func (b *topology) expect(sent []byte, rewrites bool) []byte {
	want := bytes.Clone(sent)
	if !rewrites {
		return want
	}
	serverMAC, _ := b.Server.MAC(lab.ServerLink)
	wanMAC, _ := b.Router.MAC(lab.WAN)
	copy(want, serverMAC)
	copy(want[6:], wanMAC)
	ip := want[packet.EthernetLen : packet.EthernetLen+packet.IPv4Len]
	ip[8]--
	binary.BigEndian.PutUint16(ip[10:], 0)
	binary.BigEndian.PutUint16(ip[10:], packet.Checksum(ip))
	return want
}

func packetSocket(ns *lab.Namespace, link string) (fd int, err error) {
	err = ns.Do(func() error {
		i, err := index(ns, link)
		if err != nil {
			return err
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		const ipv4 = unix.ETH_P_IP<<8&0xff00 | unix.ETH_P_IP>>8
		if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: ipv4, Ifindex: i}); err != nil {
			unix.Close(fd)
			return err
		}
		return nil
	})
	if err != nil {
		return -1, fmt.Errorf("open a packet socket on %s: %w", link, err)
	}
	return fd, nil
}
