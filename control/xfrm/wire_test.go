package xfrm

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
)

// wire sends and receives the packets of the gateway beside Linux.
type wire struct {
	t    *testing.T
	x    *tunnel
	send int // a raw socket
	hear int // a packet socket
	seq  uint16
}

func newWire(t *testing.T, x *tunnel) *wire {
	w := &wire{t: t, x: x}
	x.left.must(x.left.Do(func() (err error) {
		if w.send, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW); err != nil {
			return err
		}
		const ethIP = unix.ETH_P_IP>>8 | unix.ETH_P_IP<<8&0xff00
		if w.hear, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, ethIP); err != nil {
			return err
		}
		return unix.SetsockoptTimeval(w.hear, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2})
	}))
	t.Cleanup(func() { unix.Close(w.send); unix.Close(w.hear) })
	return w
}

// exchange sends echo requests through the gateway's tunnel and decrypts the answers of Linux at
// the other end. None may be lost.
func (w *wire) exchange(n int) {
	w.t.Helper()
	for range n {
		w.seq++
		p := echo(w.x.left.inner, w.x.left.beyond, w.seq)
		f := gateway.FlowIPv4(p)
		s, e := w.x.gateway.LookupOutbound(&f)
		if e != ipsec.OK {
			w.t.Fatalf("packet %d: %v", w.seq, e)
		}
		const room = 128 // in front, for headers
		buf := make([]byte, 512)
		copy(buf[room:], p)
		at, size, e := s.Encapsulate(0, buf, room, len(p))
		if e != ipsec.OK {
			w.t.Fatalf("packet %d: %v", w.seq, e)
		}
		require.NoError(w.t, unix.Sendto(w.send, buf[at:at+size], 0, &unix.SockaddrInet4{Addr: w.x.left.remote.As4()}))
		w.answer()
	}
}

// inbound returns the association that a packet came by. Linux may have a new one for a
// moment longer than the gateway, which leaves packets without association to Linux: here
// they wait.
func (w *wire) inbound(spi uint32, dst netip.Addr) *ipsec.SA {
	w.t.Helper()
	if s := w.x.gateway.Inbound(spi, dst); s != nil {
		return s
	}
	for start := time.Now(); time.Since(start) < time.Second; time.Sleep(time.Millisecond) {
		if s := w.x.gateway.Inbound(spi, dst); s != nil {
			w.t.Logf("packet %d was %v earlier than its association", w.seq, time.Since(start))
			return s
		}
	}
	w.t.Fatalf("packet %d: no association has SPI %#x", w.seq, spi)
	return nil
}

// answer waits for the answer to the last request.
func (w *wire) answer() {
	w.t.Helper()
	buf := make([]byte, 2048)
	for {
		var from unix.Sockaddr
		n, err := testutil.Again(func() (n int, err error) {
			n, from, err = unix.Recvfrom(w.hear, buf, 0)
			return n, err
		})
		if err != nil {
			w.t.Fatalf("packet %d is lost: %v", w.seq, err)
		}
		spi, _, ok := ipsec.Inbound(buf[:n])
		if link, isLink := from.(*unix.SockaddrLinklayer); !ok || !isLink || link.Pkttype != unix.PACKET_HOST {
			continue
		}
		s := w.inbound(spi, ipsec.Destination(buf[:n]))
		at, n, e := s.Decapsulate(0, buf, 0, n)
		if e != ipsec.OK {
			w.t.Fatalf("packet %d: %v", w.seq, e)
		}
		f := gateway.FlowIPv4(buf[at : at+n])
		if e := w.x.gateway.CheckInbound(&f, s); e != ipsec.OK {
			w.t.Fatalf("packet %d: %v", w.seq, e)
		}
		if got := uint16(buf[at+26])<<8 | uint16(buf[at+27]); got == w.seq && buf[at+20] == 0 {
			return
		}
	}
}
