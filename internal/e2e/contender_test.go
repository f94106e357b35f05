package e2e

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

// linuxContender returns Linux as a router.
func linuxContender(t *testing.T) *contender {
	c := newContender(t, "linux")
	c.forward()
	c.listen()
	return c
}

// forward enables Linux's forwarding.
func (c *contender) forward() {
	c.t.Helper()
	for _, name := range []string{"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"} {
		sysctl(c.t, c.router, name, "1")
	}
}

// warprouteContender returns warproute as a router with practically unlimited ICMP errors. Linux
// forwards punted packets if forwarding is set. prepare runs before the start.
func warprouteContender(t *testing.T, forwarding bool, prepare ...func(*contender)) (*contender, *router) {
	c := newContender(t, "warproute")
	for _, f := range prepare {
		f(c)
	}
	if forwarding {
		c.forward()
	}
	// Small chunks leave room for their errors and fragments.
	const text = `
ports: [{interface: lan}, {interface: wan}, {interface: nar}]
batch: {max_packets: 64}
icmp: {per_second: 1000000, burst: 1000000, source_per_second: 1000000, source_burst: 1000000}
`
	r := startConfigured(t, c.router, text)
	c.listen()
	return c, r
}

// listen opens the sockets of the sides and collects frames.
func (c *contender) listen() {
	c.t.Helper()
	for i, s := range sides {
		if err := c.hosts.Do(func() (err error) {
			link, err := c.hosts.Link(s)
			if err != nil {
				return err
			}
			if c.fds[i], err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
				return err
			}
			if err := unix.SetsockoptInt(c.fds[i], unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
				return err
			}
			if err := unix.SetsockoptInt(c.fds[i], unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20); err != nil {
				return err
			}
			timeout := unix.NsecToTimeval(int64(50 * time.Millisecond))
			if err := unix.SetsockoptTimeval(c.fds[i], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
				return err
			}
			const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // in network order
			return unix.Bind(c.fds[i], &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Attrs().Index})
		}); err != nil {
			c.t.Fatalf("listen on %s's side %s: %v", c.name, s, err)
		}
		stop, done := make(chan struct{}), make(chan struct{})
		go func() { c.collect(i, stop); close(done) }()
		c.t.Cleanup(func() { close(stop); <-done; unix.Close(c.fds[i]) })
	}
}

func (c *contender) collect(side int, stop chan struct{}) {
	buf := make([]byte, 4096)
	for {
		n, err := unix.Read(c.fds[side], buf)
		if err != nil {
			select {
			case <-stop:
				return
			default:
				continue
			}
		}
		c.mu.Lock()
		if id, ok := tagOf(buf[:n]); ok && id >= firstMark {
			c.marks[id] = true
		} else {
			c.received = append(c.received, arrived{side, slices.Clone(buf[:n])})
		}
		c.mu.Unlock()
	}
}

// send sends a frame from a side.
func (c *contender) send(side int, frame []byte) {
	if _, err := unix.Write(c.fds[side], frame); err != nil {
		c.t.Fatalf("%s: send % x: %v", c.name, frame, err)
	}
}

// firstMark is the first number of a mark.
const firstMark = 1 << 31

// settle waits until all packets from a side have left the router. It sends marks behind them that
// are forwarded to each side, refused, and answered by the router's host.
func (c *contender) settle(side int, mark *uint32) {
	c.t.Helper()
	id := *mark
	from := side4(side, 2)
	send := func(dst netip.Addr, ttl byte, proto byte) {
		p := &probe{id: *mark, side: side}
		p.ipv4(from, dst, ttl, proto)
		c.send(side, p.frame)
		*mark++
	}
	for to := range sides {
		send(side4(to, 3), 64, 17)
	}
	send(side4((side+1)%len(sides), 3), 1, 17)
	send(side4(side, 1), 64, 1)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Microsecond) {
		c.mu.Lock()
		missing := []uint32{}
		for m := id; m < *mark; m++ {
			if !c.marks[m] {
				missing = append(missing, m-id)
			}
		}
		c.mu.Unlock()
		if len(missing) == 0 {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: marks %[3]v from %[2]s did not leave the router", c.name, sides[side], missing)
		}
	}
}

// lost returns the number of frames dropped at the test's sockets.
func (c *contender) lost() (n uint32) {
	for _, fd := range c.fds {
		s, err := unix.GetsockoptTpacketStats(fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
		require.NoError(c.t, err)
		n += s.Drops
	}
	return n
}
