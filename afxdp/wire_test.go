package afxdp

import (
	"encoding/binary"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
)

// patience is the time to wait for a frame that must not arrive. A veth delivers a frame before the
// system call that sends it returns.
const patience = 200 * time.Millisecond

// wire is a packet socket on an interface.
type wire struct {
	t  testing.TB
	fd int
}

func newWire(t testing.TB, name string) *wire {
	t.Helper()
	iface, err := net.InterfaceByName(name)
	require.NoError(t, err)
	const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	timeout := unix.NsecToTimeval(int64(patience))
	for _, err := range []error{
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: iface.Index}),
	} {
		require.NoError(t, err)
	}
	return &wire{t, fd}
}

func (w *wire) send(frame []byte) {
	w.t.Helper()
	if _, err := unix.Write(w.fd, frame); err != nil {
		w.t.Fatalf("send a frame of %d bytes: %v", len(frame), err)
	}
}

// receive returns the next frame, nil if none arrives within patience.
func (w *wire) receive() []byte {
	w.t.Helper()
	b := make([]byte, 65536)
	n, err := testutil.Again(func() (int, error) { return unix.Read(w.fd, b) })
	if err == unix.EAGAIN {
		return nil
	}
	require.NoError(w.t, err)
	return b[:n]
}

// udp returns a frame with an IPv4 UDP packet of a total length. The flow is the source port, and
// the number is in the last four bytes.
func udp(dst [6]byte, flow uint16, number uint32, length int) []byte {
	b := make([]byte, length)
	copy(b, dst[:])
	copy(b[6:], []byte{2, 0, 0, 0, 0, 9})
	binary.BigEndian.PutUint16(b[12:], unix.ETH_P_IP)
	ip := b[14:]
	ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	copy(ip[12:], []byte{198, 18, 0, 1, 198, 19, 0, 1})
	binary.BigEndian.PutUint16(ip[20:], flow)
	binary.BigEndian.PutUint16(ip[22:], 9)
	binary.BigEndian.PutUint16(ip[24:], uint16(len(ip)-20))
	for i := 42; i < length; i++ {
		b[i] = byte(i)
	}
	binary.BigEndian.PutUint32(b[length-4:], number)
	return b
}

// flood sends a frame repeatedly on an interface until it is stopped.
func flood(t testing.TB, name string, frame []byte) (stop func()) {
	w := newWire(t, name)
	w.send(frame)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
				_, _ = unix.Write(w.fd, frame)
			}
		}
	}()
	return func() { close(end); <-ended }
}
