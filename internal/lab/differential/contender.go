package differential

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// Linux returns Linux as a router.
func Linux(t *testing.T, ports Ports) *Contender {
	t.Helper()
	c := newContender(t, "linux", ports)
	c.forward()
	c.listen()
	return c
}

// forward enables Linux's forwarding.
func (c *Contender) forward() {
	c.t.Helper()
	for _, name := range []string{"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"} {
		require.NoError(c.t, c.Router.Sysctl(name, "1"))
	}
}

// Warproute returns warproute, a program, as a router with practically unlimited ICMP errors. Linux
// forwards punted packets if forwarding is set. prepare runs before the start.
func Warproute(t *testing.T, program string, ports Ports, forwarding bool, prepare ...func(*Contender)) (*Contender, *labtest.Router) {
	t.Helper()
	c := newContender(t, "warproute", ports)
	for _, f := range prepare {
		f(c)
	}
	if forwarding {
		c.forward()
	}
	// Small chunks leave room for their errors and fragments.
	chunk := 64
	if ports.exits {
		chunk = 1 // so that a worker never has more to write to Linux than it has time for
	}
	text := fmt.Sprintf(`
ports: [%s]
batch: {max_packets: %d}
exit: {share: 100}
metrics: {listen: ""}
icmp: {per_second: 1000000, burst: 1000000, source_per_second: 1000000, source_burst: 1000000}
`, strings.Join(ports.configured, ", "), chunk)
	config := filepath.Join(t.TempDir(), "warproute.yaml")
	require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	r := labtest.Start(t, c.Router, program, nil, "--config", config)
	c.listen()
	return c, r
}

// listen opens the sockets of the sides and collects frames.
func (c *Contender) listen() {
	c.t.Helper()
	for i := range c.sockets {
		s := &c.sockets[i]
		fd, err := c.hosts.PacketSocket(s.link)
		require.NoError(c.t, err)
		timeout := unix.NsecToTimeval(int64(50 * time.Millisecond))
		err = errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout))
		s.fd = fd
		stop, done := make(chan struct{}), make(chan struct{})
		go func() { c.collect(i, stop); close(done) }()
		c.t.Cleanup(func() { close(stop); <-done; unix.Close(fd) })
		require.NoError(c.t, err)
	}
}

func (c *Contender) collect(socket int, stop chan struct{}) {
	buf, control := make([]byte, 4096), make([]byte, 128)
	for {
		n, nc, _, _, err := unix.Recvmsg(c.sockets[socket].fd, buf, control, 0)
		if err != nil {
			select {
			case <-stop:
				return
			default:
				continue
			}
		}
		frame := restoreTag(buf[:n], control[:nc])
		a := arrived{emitted{side: c.sockets[socket].side}, socket}
		inner := frame
		for side, s := range c.sides {
			if s.unwrap == nil {
				continue
			}
			if b, outer, ok := s.unwrap(frame); ok && len(b) < len(inner) { // the one with most tags
				inner, a.side, a.outer = b, side, outer
			}
		}
		a.bytes = string(inner)
		c.mu.Lock()
		if id, ok := tagOf(inner); ok && id >= firstMark {
			c.marks[id] = true
		} else {
			c.received = append(c.received, a)
		}
		c.mu.Unlock()
	}
}

// restoreTag returns a received frame with the VLAN tag that Linux has moved to the control message.
func restoreTag(frame, control []byte) []byte {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return frame
	}
	for _, m := range messages {
		const valid, protocolValid = 1 << 4, 1 << 6 // of TP_STATUS_VLAN
		if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA || len(m.Data) < 20 {
			continue
		}
		native := binary.NativeEndian
		if status := native.Uint32(m.Data); status&valid != 0 {
			t := tag{0x8100, native.Uint16(m.Data[16:])}
			if status&protocolValid != 0 {
				t.protocol = native.Uint16(m.Data[18:])
			}
			return addTags(frame, []tag{t})
		}
	}
	return frame
}

// Send sends a frame from a side.
func (c *Contender) Send(side int, frame []byte) { c.send(side, c.sides[side].senders, frame) }

func (c *Contender) send(side int, sockets []int, frame []byte) {
	s := c.sockets[sockets[int(frame[len(frame)-1])%len(sockets)]]
	if wrap := c.sides[side].wrap; wrap != nil {
		frame = wrap(frame)
	}
	if _, err := unix.Write(s.fd, frame); err != nil {
		c.t.Fatalf("%s: send by %s % x: %v", c.name, s.link, frame, err)
	}
}

// lost returns the number of frames dropped at the test's sockets.
func (c *Contender) lost() (n uint32) {
	for _, s := range c.sockets {
		stats, err := unix.GetsockoptTpacketStats(s.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
		require.NoError(c.t, err)
		n += stats.Drops
	}
	return n
}

// forget removes the frames so far.
func (c *Contender) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.received = nil
}
