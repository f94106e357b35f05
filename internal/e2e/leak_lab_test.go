package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
)

// leakLab is a gateway between client and server with policies that protect all traffic to the networks
// behind the server, 10.9.0.0/16 and fd09::/64. Plaintext that arrives there has leaked.
type leakLab struct {
	*lab.Topology
	t      *testing.T
	config string
	mac    net.HardwareAddr // of the port towards the client
	clear  atomic.Int64     // protected packets in cleartext at the server
	sealed atomic.Int64     // ESP there
	wanted atomic.Int64     // packets still to send
	ended  chan struct{}    // closed when all are sent
}

const protected = 10_000 // packets per case

// leakKey is the key of the gateway's outbound SA.
var leakKey = []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}

func newLeakLab(t *testing.T) *leakLab {
	t.Helper()
	l := &leakLab{Topology: newTopology(t, lab.VethOptions{}), t: t, config: filepath.Join(t.TempDir(), "warproute.yaml")}
	text := fmt.Sprintf(`ports: [{interface: lan0}, {interface: wan0}]
metrics: {listen: ""}
ipsec:
  state: %s
  sas:
    - {name: out, spi: 0x100, direction: out, src: 10.8.0.1, dst: 10.8.0.2, suite: aes128gcm16, key: "%x"}
  policies:
    - {direction: out, src: 10.7.0.0/16, dst: 10.9.0.0/16, action: protect, sa: out}
    - {direction: out, src: "fd07::/16", dst: "fd09::/64", action: protect, sa: out}
`, filepath.Join(filepath.Dir(l.config), "state"), leakKey)
	writeFile(t, l.config, text)
	for _, s := range []string{"net.ipv4.conf.all.send_redirects", "net.ipv4.conf.default.send_redirects"} {
		sysctl(t, l.Router, s, "0")
	}
	ip(t, l.Router, "route add 10.9.0.0/16 via 10.8.0.2", "-6 route add fd09::/64 via fd08::2")
	server := macOf(t, l.Server, lab.ServerLink)
	for _, a := range []netip.Prefix{lab.Server4, lab.Server6} {
		require.NoError(t, l.Router.AddNeighbor(lab.WAN, a.Addr(), server))
	}
	l.mac = macOf(t, l.Router, lab.LAN)
	listen(t, l.Server, lab.ServerLink, l.arrives)
	return l
}

// arrives counts a frame at the server.
func (l *leakLab) arrives(frame []byte, out bool) {
	switch {
	case out || len(frame) < 34:
	case binary.BigEndian.Uint16(frame[12:]) == unix.ETH_P_IP && frame[23] == unix.IPPROTO_ESP:
		l.sealed.Add(1)
	case bytes.Contains(frame, inner4[1].AsSlice()) || bytes.Contains(frame, inner6[1].AsSlice()):
		l.clear.Add(1)
	}
}

func (l *leakLab) linuxForwards(on bool) {
	l.t.Helper()
	require.NoError(l.t, l.Forwarding(on))
}

func (l *leakLab) start() *router { return startRouter(l.t, l.Router, "--config", l.config) }

// frame returns a client's frame to a MAC address, with tags and IP options.
func (l *leakLab) frame(mac net.HardwareAddr, tags []byte, ipv6 bool, options int) []byte {
	data := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	f := testutil.UDP6(inner6[0].String(), inner6[1].String(), 12345, 12345, data...)
	if !ipv6 {
		ip := testutil.IPv4(inner4[0].String(), inner4[1].String(), layers.IPProtocolUDP)
		for range options {
			ip.Options = append(ip.Options, layers.IPv4Option{OptionType: 1, OptionLength: 1}) // no operation
		}
		f = testutil.Frame(testutil.Ethernet(layers.EthernetTypeIPv4), ip, &layers.UDP{SrcPort: 12345, DstPort: 12345}, gopacket.Payload(data))
	}
	return slices.Concat(mac, f[6:12], tags, f[12:])
}

var priorityTag = []byte{0x81, 0, 0, 0} // VLAN 0: Linux takes the frame for untagged

// send starts to send protected packets, alternating between frames, at 50,000 per second.
func (l *leakLab) send(frames ...[]byte) {
	l.t.Helper()
	l.wanted.Store(protected)
	ended := make(chan struct{})
	l.ended = ended
	go func() {
		defer close(ended)
		fd, until := -1, time.Now().Add(10*time.Second)
		for n := 0; l.wanted.Load() > 0 && time.Now().Before(until); n++ {
			var err error
			if fd < 0 {
				if fd, err = l.Client.PacketSocket(lab.ClientLink); err != nil { // the link is missing
					time.Sleep(time.Millisecond)
					continue
				}
			}
			switch err = unix.Send(fd, frames[n%len(frames)], 0); {
			case err == nil:
				l.wanted.Add(-1)
			case errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENETDOWN):
				unix.Close(fd)
				fd = -1
			}
			if n%16 == 15 {
				time.Sleep(320 * time.Microsecond)
			}
		}
		if fd >= 0 {
			unix.Close(fd)
		}
	}()
}

// sent waits until a part of the packets, between 0 and 1, has been sent.
func (l *leakLab) sent(part float64) {
	l.t.Helper()
	for l.wanted.Load() > int64(protected*(1-part)) {
		select {
		case <-l.ended:
		case <-time.After(time.Millisecond):
			continue
		}
		if l.wanted.Load() > 0 {
			l.t.Fatalf("%d packets could not be sent", l.wanted.Load())
		}
	}
}

// finish waits until all packets have arrived and fails if any leaked.
func (l *leakLab) finish() {
	l.t.Helper()
	<-l.ended
	l.sent(1)
	time.Sleep(100 * time.Millisecond)
	if n := l.clear.Load(); n > 0 {
		l.t.Errorf("%d of %d protected packets left in cleartext", n, protected)
	}
}

func (l *leakLab) plain() [][]byte {
	return [][]byte{l.frame(l.mac, nil, false, 0), l.frame(l.mac, nil, true, 0)}
}

// all returns frames of every kind; a gateway encrypts some and drops the others.
func (l *leakLab) all() [][]byte {
	return append(l.plain(), l.frame(l.mac, nil, false, 4), l.frame(l.mac, priorityTag, false, 0), l.frame(l.mac, priorityTag, true, 0))
}

// reachable fails unless the client reaches the gateway's host.
func (l *leakLab) reachable(when string) {
	l.t.Helper()
	for _, a := range []netip.Prefix{lab.LAN4, lab.LAN6} {
		if _, err := lab.Ping(l.Client, a.Addr(), lab.PingOptions{Count: 2}); err != nil {
			l.t.Errorf("%s: the host itself: %v", when, err)
		}
	}
}

// expectTransit fails unless the gateway dropped the frames for a reason.
func (l *leakLab) expectTransit(r *router, reason string) {
	l.t.Helper()
	dropped := r.Drops(reason)
	if dropped < protected/2 { // a veth may lose some before
		l.t.Errorf("%d frames dropped as %s, want about %d", dropped, reason, protected)
	}
	b := r.Stop()
	if b.Arrived != b.Linux+b.Lost+b.Received+dropped {
		l.t.Errorf("the account does not add up with %d of transit: %+v\n%s", dropped, b, r.Out)
	}
}
