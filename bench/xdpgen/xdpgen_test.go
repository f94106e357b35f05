package xdpgen

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet"
)

// Flows are round-robin, each with its destination, port and valid checksum, also on reused pages.
func TestSenderFramesArriveAndAreCounted(t *testing.T) {
	a, b := namespace(t, "a"), namespace(t, "b")
	require.NoError(t, lab.Veth(lab.End{Namespace: a, Name: "a0"}, lab.End{Namespace: b, Name: "b0"}, lab.VethOptions{}))
	header := testutil.UDP4("10.0.0.1", "10.1.2.250", 1, 9, make([]byte, 18)...)
	binary.BigEndian.PutUint16(header[40:], 0)

	passed := attachTo(t, b, "b0", AttachPass)
	fd := capture(t, b, "b0")
	sent := make(chan error)
	sender := newSender(t, a, "a0", header, 8)
	go func() { sent <- a.Do(sender.Run) }()
	buf := make([]byte, 2048)
	for range 500 {
		n, err := testutil.Again(func() (int, error) { return unix.Read(fd, buf) })
		if err != nil {
			t.Fatalf("receive: %v", err)
		}
		f := buf[:n]
		h := (*packet.IPv4)(f[packet.EthernetLen:])
		flow := binary.BigEndian.Uint16(f[34:]) - 1024
		want := binary.BigEndian.Uint32(netip.MustParseAddr("10.1.2.250").AsSlice()) + uint32(flow)
		if n != 60 || flow > 7 || h.Dst() != want || !h.ChecksumOK() || h.TTL() != 64 {
			t.Fatalf("frame of flow %d: % x", flow, f)
		}
	}
	require.NoError(t, passed.Close())
	count := attachTo(t, b, "b0", AttachCount)
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		n, err := count.Frames()
		require.NoError(t, err)
		if n > 10_000 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d frames were counted in 5 s", n)
		}
	}
	sender.Stop()
	if err := <-sent; err != nil {
		t.Error(err)
	}
	for _, c := range []interface{ Close() error }{sender, count} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestNewSenderRejectsInvalidFrames(t *testing.T) {
	for _, c := range []struct{ header, length, flows int }{{HeaderLen - 1, 60, 1}, {HeaderLen, HeaderLen - 1, 1}, {HeaderLen, 60, 0}} {
		if s, err := NewSender(1, make([]byte, c.header), c.length, c.flows); err == nil {
			s.Close()
			t.Errorf("%+v is accepted", c)
		}
	}
}

func namespace(t *testing.T, name string) *lab.Namespace {
	t.Helper()
	ns, err := lab.New(name)
	require.NoError(t, err)
	t.Cleanup(func() { ns.Close() })
	return ns
}

func index(t *testing.T, ns *lab.Namespace, link string) int {
	t.Helper()
	l, err := ns.Link(link)
	require.NoError(t, err)
	return l.Attrs().Index
}

func attachTo(t *testing.T, ns *lab.Namespace, link string, attach func(int) (*Program, error)) (p *Program) {
	t.Helper()
	i := index(t, ns, link)
	require.NoError(t, ns.Do(func() (err error) { p, err = attach(i); return err }))
	return p
}

func newSender(t *testing.T, ns *lab.Namespace, link string, header []byte, flows int) (s *Sender) {
	t.Helper()
	i := index(t, ns, link)
	require.NoError(t, ns.Do(func() (err error) { s, err = NewSender(i, header[:HeaderLen], 60, flows); return err }))
	return s
}

// capture opens a socket that receives the IPv4 frames of a link, with a timeout of 1 s.
func capture(t *testing.T, ns *lab.Namespace, link string) (fd int) {
	t.Helper()
	i := index(t, ns, link)
	err := ns.Do(func() (err error) {
		const ipv4 = unix.ETH_P_IP<<8&0xff00 | unix.ETH_P_IP>>8
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, ipv4); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: ipv4, Ifindex: i})
	})
	if err == nil {
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5})
	}
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}
