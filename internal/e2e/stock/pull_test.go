package stock

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

const (
	pullFlows    = 16                     // all by one of two members once in 32,768 times
	pullInterval = 40 * time.Millisecond  // between packets of a flow
	pullPackets  = 90                     // of a flow
	pullInFlight = 250 * time.Millisecond // time in which a guest with one slow processor forwards a packet
)

// pullFlow is a UDP flow from the client to the server. Times are in nanoseconds since the start.
type pullFlow struct {
	conn     net.Conn
	sent     [pullPackets]int64
	received [pullPackets]atomic.Bool
	member   [pullPackets]atomic.Int32 // on which the server's host saw it, from 1; 0: none
}

// testPulledMember takes the carrier of member wan0 of the bond under traffic. Flows of the other member lose nothing, and
// those of wan0 move within 100 ms of Linux's notice.
func testPulledMember(t *testing.T, n lab.Network, mode string) {
	t.Helper()
	start := time.Now()
	flows := make([]*pullFlow, pullFlows)
	require.NoError(t, n["client"].Do(func() (err error) {
		for i := range flows {
			flows[i] = new(pullFlow)
			if flows[i].conn, err = net.Dial("udp", "10.2.0.2:9000"); err != nil {
				return err
			}
		}
		return nil
	}))
	receiveFlows(t, n["server"], flows)
	noticed := noticeTimes(t, n["router"], start)

	b := make([]byte, 5)
	pulled, restored := int64(0), int64(0)
	for number := range pullPackets {
		switch number {
		case pullPackets / 3:
			pulled = int64(time.Since(start))
			require.NoError(t, n["server"].SetDown("wan0"))
		case pullPackets * 2 / 3:
			restored = int64(time.Since(start))
			require.NoError(t, n["server"].SetUp("wan0"))
		}
		for i, f := range flows {
			b[0] = byte(i)
			binary.BigEndian.PutUint32(b[1:], uint32(number))
			f.sent[number] = int64(time.Since(start))
			_, _ = f.conn.Write(b)
		}
		time.Sleep(pullInterval)
	}
	time.Sleep(300 * time.Millisecond) // of packets in flight

	notice := noticed(mode, pulled)
	lost, late, onPulled, last := 0, 0, 0, int64(0)
	for i, f := range flows {
		f.conn.Close()
		was := f.member[pullPackets/6].Load()
		if was == 1 {
			onPulled++
		}
		for number := range f.sent {
			at := f.sent[number]
			if at < restored && at > pulled && f.member[number].Load() == 1 && at > notice+int64(100*time.Millisecond) {
				t.Errorf("flow %d: packet %d by the pulled member, %v after Linux's notice", i, number, time.Duration(at-notice))
			}
			switch {
			case f.received[number].Load():
			case at >= restored-int64(pullInFlight):
				late++ // Linux's bonds choose their members again, each at its own time
			case at < pulled-int64(pullInFlight):
				t.Errorf("flow %d: packet %d was lost %v before the member", i, number, time.Duration(pulled-at))
			case was != 1:
				t.Errorf("flow %d, by another member, lost packet %d %v after the pull", i, number, time.Duration(at-pulled))
			default:
				lost++
				last = max(last, at-notice)
			}
		}
	}
	t.Logf("%s: %d of %d flows by the pulled member lost %d packets of %d; Linux noticed after %v, the last loss %v later; %d lost after its return",
		mode, onPulled, pullFlows, lost, pullFlows*pullPackets, time.Duration(notice-pulled), time.Duration(last), late)
	if notice == 0 || last > int64(100*time.Millisecond) {
		t.Errorf("the last loss is %v after Linux's notice", time.Duration(last))
	}
	if mode == "active-backup" && onPulled != pullFlows || mode != "active-backup" && (onPulled == 0 || onPulled == pullFlows) {
		t.Errorf("%d of %d flows were those of the pulled member", onPulled, pullFlows)
	}
	labtest.Eventually(t, 10*time.Second, "pings pass again", func() bool {
		r, _ := lab.Ping(n["client"], netip.MustParseAddr("10.2.0.2"), lab.PingOptions{Count: 1, Timeout: 300 * time.Millisecond})
		return r.Received > 0
	})
}

// receiveFlows receives the packets of flows at the server, and sees them on its members, until the end of the test.
func receiveFlows(t *testing.T, server *lab.Namespace, flows []*pullFlow) {
	t.Helper()
	parse := func(b []byte) (f *pullFlow, number int) {
		if len(b) < 5 || int(b[0]) >= len(flows) || binary.BigEndian.Uint32(b[1:]) >= pullPackets {
			return nil, 0
		}
		return flows[b[0]], int(binary.BigEndian.Uint32(b[1:]))
	}
	conn := net.PacketConn(nil)
	require.NoError(t, server.Do(func() (err error) {
		conn, err = net.ListenPacket("udp", "10.2.0.2:9000")
		return err
	}))
	ended := make(chan struct{})
	t.Cleanup(func() { conn.Close(); <-ended })
	require.NoError(t, forceReadBuffer(conn.(*net.UDPConn)))
	go func() {
		defer close(ended)
		for b := make([]byte, 64); ; {
			size, _, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			if f, number := parse(b[:size]); f != nil {
				f.received[number].Store(true)
			}
		}
	}()
	for member, name := range []string{"wan0", "wan1"} {
		stop, err := server.Listen(name, func(b []byte, out bool) {
			const payload = 14 + 20 + 8
			if out || len(b) < payload || b[12] != 8 || b[13] != 0 || b[23] != unix.IPPROTO_UDP || binary.BigEndian.Uint16(b[36:]) != 9000 {
				return
			}
			if f, number := parse(b[payload:]); f != nil {
				f.member[number].Store(int32(member + 1))
			}
		})
		require.NoError(t, err)
		t.Cleanup(stop)
	}
}

// forceReadBuffer sets the read buffer of a socket to several MB, whatever the system's limit.
func forceReadBuffer(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20) })
	return errors.Join(err, failed)
}

// noticeTimes records the times of netlink messages in a namespace. The returned function returns when Linux reported the
// change that moves the flows of wan0: its carrier, or in active-backup the next active member.
func noticeTimes(t *testing.T, ns *lab.Namespace, start time.Time) func(mode string, after int64) int64 {
	t.Helper()
	updates, done := make(chan netlink.LinkUpdate, 1024), make(chan struct{})
	require.NoError(t, ns.Do(func() error { return netlink.LinkSubscribe(updates, done) }))
	t.Cleanup(func() { close(done) })
	type notice struct {
		at   int64
		link netlink.Link
	}
	notices := make(chan notice, 1024)
	go func() {
		for u := range updates {
			select {
			case notices <- notice{int64(time.Since(start)), u.Link}:
			default:
			}
		}
	}()
	return func(mode string, after int64) int64 {
		for {
			select {
			case m := <-notices:
				slave, ok := m.link.Attrs().Slave.(*netlink.BondSlave)
				switch {
				case m.at < after || !ok:
				case mode != "active-backup" && m.link.Attrs().Name == "wan0" && m.link.Attrs().RawFlags&unix.IFF_LOWER_UP == 0:
					return m.at
				case mode == "active-backup" && m.link.Attrs().Name == "wan1" && slave.State == netlink.BondStateActive:
					return m.at
				}
			default:
				return 0
			}
		}
	}
}
