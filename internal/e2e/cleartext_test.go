package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
)

// A gateway between client and server, with policies that protect all that goes to networks
// behind the server: 10.9.0.0/16 and fd09::/64. What arrives there in cleartext has leaked.
type leakLab struct {
	*lab.Topology
	t      *testing.T
	config string
	mac    net.HardwareAddr // of the port towards the client
	clear  atomic.Int64     // protected packets in cleartext at the server
	sealed atomic.Int64     // ESP there
	wanted atomic.Int64     // packets that are to be sent yet
	ended  chan struct{}    // closed when they have been
}

const protected = 10_000 // packets of each case

var (
	inner4 = [2]netip.Addr{netip.MustParseAddr("10.7.0.2"), netip.MustParseAddr("10.9.0.2")}
	inner6 = [2]netip.Addr{netip.MustParseAddr("fd07::2"), netip.MustParseAddr("fd09::2")}
)

func newLeakLab(t *testing.T) *leakLab {
	t.Helper()
	l := &leakLab{Topology: newTopology(t, lab.VethOptions{}), t: t, config: filepath.Join(t.TempDir(), "warproute.yaml")}
	const key = "000102030405060708090a0b0c0d0e0f10111213"
	text := fmt.Sprintf(`ports: [{interface: lan0}, {interface: wan0}]
metrics: {listen: ""}
ipsec:
  state: %s
  sas:
    - {name: out, spi: 0x100, direction: out, src: 10.8.0.1, dst: 10.8.0.2, suite: aes128gcm16, key: "%s"}
  policies:
    - {direction: out, src: 10.7.0.0/16, dst: 10.9.0.0/16, action: protect, sa: out}
    - {direction: out, src: "fd07::/16", dst: "fd09::/64", action: protect, sa: out}
`, filepath.Join(filepath.Dir(l.config), "state"), key)
	if err := os.WriteFile(l.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"net.ipv4.conf.all.send_redirects", "net.ipv4.conf.default.send_redirects"} {
		l.sysctl(s, "0")
	}
	must(t, l.Router, "ip", "route", "add", "10.9.0.0/16", "via", "10.8.0.2")
	must(t, l.Router, "ip", "-6", "route", "add", "fd09::/64", "via", "fd08::2")
	server, err := l.Server.MAC(lab.ServerLink)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []netip.Prefix{lab.Server4, lab.Server6} {
		if err := l.Router.AddNeighbor(lab.WAN, a.Addr(), server); err != nil {
			t.Fatal(err)
		}
	}
	if l.mac, err = l.Router.MAC(lab.LAN); err != nil {
		t.Fatal(err)
	}
	stop, err := l.Server.Listen(lab.ServerLink, l.arrives)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
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

func (l *leakLab) sysctl(name, value string) {
	l.t.Helper()
	if err := l.Router.Sysctl(name, value); err != nil {
		l.t.Fatal(err)
	}
}

func (l *leakLab) linuxForwards(on bool) {
	l.t.Helper()
	if err := l.Forwarding(on); err != nil {
		l.t.Fatal(err)
	}
}

func (l *leakLab) start() *router { return startRouter(l.t, l.Router, "--config", l.config) }

// The frames that a client can send: to a MAC address, behind tags, with options.
func (l *leakLab) frame(mac net.HardwareAddr, tags []byte, ipv6 bool, options int) []byte {
	b := append(append(append([]byte{}, mac...), 2, 0, 0, 0, 0, 9), tags...)
	if ipv6 {
		b = append(b, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 16, unix.IPPROTO_UDP, 64)
		b = append(append(b, inner6[0].AsSlice()...), inner6[1].AsSlice()...)
	} else {
		ip := make([]byte, 20+options)
		ip[0], ip[3], ip[8], ip[9] = byte(0x45+options/4), byte(20+options+16), 64, unix.IPPROTO_UDP
		copy(ip[12:], inner4[0].AsSlice())
		copy(ip[16:], inner4[1].AsSlice())
		for i := range options {
			ip[20+i] = 1 // no operation
		}
		sum := uint32(0)
		for i := 0; i < len(ip); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(ip[i:]))
		}
		sum = sum>>16 + sum&0xffff
		binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
		b = append(append(b, 8, 0), ip...)
	}
	return append(b, 0x30, 0x39, 0x30, 0x39, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8) // UDP without a checksum
}

var priorityTag = []byte{0x81, 0, 0, 0} // VLAN 0: Linux takes the frame for untagged

// send begins to send these frames alternately, a protected number at all, at 50,000 a second.
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
				if fd, err = l.Client.PacketSocket(lab.ClientLink); err != nil { // the link is away
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

// sent waits until so much of the case has been sent, between 0 and 1.
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

// finish waits until everything has been sent and has arrived, and fails if some leaked.
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

// all are frames of every kind, of which a gateway protects some and drops the others.
func (l *leakLab) all() [][]byte {
	return append(l.plain(), l.frame(l.mac, nil, false, 4), l.frame(l.mac, priorityTag, false, 0), l.frame(l.mac, priorityTag, true, 0))
}

// reachable fails unless the client can talk to the host that the gateway runs on.
func (l *leakLab) reachable(when string) {
	l.t.Helper()
	for _, a := range []netip.Prefix{lab.LAN4, lab.LAN6} {
		if _, err := lab.Ping(l.Client, a.Addr(), lab.PingOptions{Count: 2}); err != nil {
			l.t.Errorf("%s: the host itself: %v", when, err)
		}
	}
}

// expectTransit fails unless the gateway counted the frames as dropped for this reason.
func (l *leakLab) expectTransit(r *router, reason string) {
	l.t.Helper()
	dropped := r.drops(reason)
	if dropped < protected/2 { // a veth may lose some before
		l.t.Errorf("%d frames dropped as %s, want about %d", dropped, reason, protected)
	}
	b := r.stop()
	if b.arrived != b.linux+b.lost+b.received+dropped {
		l.t.Errorf("the account does not add up with %d of transit: %+v\n%s", dropped, b, r.out)
	}
}

// Linux forwards no protected packet in cleartext past a gateway, whatever the packet looks
// like and whatever becomes of settings, ports and the gateway.
func TestGatewaySendsNothingInCleartext(t *testing.T) {
	t.Run("IP options", func(t *testing.T) {
		l := newLeakLab(t)
		r := l.start()
		l.linuxForwards(true)
		l.send(l.frame(l.mac, nil, false, 4))
		l.finish()
		l.expectTransit(r, "transit_ipv4_options")
	})
	t.Run("VLAN tags", func(t *testing.T) {
		l := newLeakLab(t)
		r := l.start()
		l.linuxForwards(true)
		l.send(l.frame(l.mac, priorityTag, false, 0), l.frame(l.mac, priorityTag, true, 0))
		l.finish()
		l.expectTransit(r, "transit_vlan")
	})
	t.Run("other unicast MACs", func(t *testing.T) {
		l := newLeakLab(t)
		r := l.start()
		must(t, l.Router, "ip", "link", "add", "mv0", "link", lab.LAN, "up", "type", "macvlan", "mode", "private")
		l.linuxForwards(true)
		mac, err := l.Router.MAC("mv0")
		if err != nil {
			t.Fatal(err)
		}
		frames := [][]byte{l.frame(mac, nil, false, 0), l.frame(mac, nil, true, 0)}
		l.send(frames...)
		l.finish()
		l.expectTransit(r, "transit_other_mac")
		l.send(frames...) // the gateway has ended
		l.finish()
	})
	t.Run("sysctl flips", func(t *testing.T) {
		l := newLeakLab(t)
		r := l.start()
		l.send(l.all()...)
		for i := range 8 {
			l.linuxForwards(i%2 == 0)
			l.sent(float64(i+1) / 8)
		}
		l.finish()
		for _, want := range []string{`msg="linux forwarding is on" port=lan0 family=ipv4`, `msg="linux forwarding is off" port=lan0 family=ipv6`} {
			r.awaitLog(want)
		}
		if l.sealed.Load() == 0 {
			t.Error("nothing was protected")
		}
	})
	t.Run("kill -9 under load", func(t *testing.T) {
		l := newLeakLab(t)
		r := l.start()
		l.linuxForwards(true)
		l.send(l.all()...)
		l.sent(0.2)
		r.kill()
		l.finish()
		if l.sealed.Load() == 0 {
			t.Error("nothing was protected")
		}
		l.reachable("killed")
		if out, err := l.Router.Run(program, "doctor"); err != nil || !strings.Contains(out, "a gateway that has ended keeps Linux from forwarding") {
			t.Errorf("doctor: %v\n%s", err, out)
		}
		l.sealed.Store(0)
		l.send(l.all()...)
		l.sent(0.1)
		l.start() // takes the ports over
		l.finish()
		l.send(l.plain()...)
		l.finish()
		if l.sealed.Load() == 0 {
			t.Error("nothing was protected by the next gateway")
		}
	})
	t.Run("port re-creation", func(t *testing.T) {
		l := newLeakLab(t)
		r := l.start()
		l.sysctl("net.ipv4.conf.default.forwarding", "1")
		l.send(append(l.plain(), l.frame(l.mac, nil, false, 4))...)
		for i := range 3 {
			l.sent(float64(i) / 4)
			must(t, l.Router, "ip", "link", "del", lab.LAN)
			if err := lab.Veth(lab.End{Namespace: l.Client, Name: lab.ClientLink}, lab.End{Namespace: l.Router, Name: lab.LAN, MAC: l.mac}, lab.VethOptions{}); err != nil {
				t.Fatal(err)
			}
			r.awaitLogs("the port's interface is back", i+1)
		}
		l.finish()
		if l.sealed.Load() == 0 {
			t.Error("nothing was protected")
		}
	})
	t.Run("start", func(t *testing.T) {
		l := newLeakLab(t)
		_, _ = l.Router.Run(program, "guard", "--config", l.config) // as at boot
		l.linuxForwards(true)
		l.send(l.all()...)
		l.sent(0.1)
		l.start()
		l.finish()
		l.send(l.plain()...)
		l.finish()
		if l.sealed.Load() == 0 {
			t.Error("nothing was protected")
		}
	})
	t.Run("start while a port is missing", func(t *testing.T) {
		l := newLeakLab(t)
		text, err := os.ReadFile(l.config)
		if err == nil {
			err = os.WriteFile(l.config, bytes.Replace(text, []byte("ports: ["), []byte("ports: [{interface: dmz0}, "), 1), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if out, err := l.Router.Run(program, "run", "--config", l.config); err == nil || !strings.Contains(out, `no interface "dmz0"`) {
			t.Fatalf("run: %v\n%s", err, out)
		}
		l.linuxForwards(true)
		l.send(l.all()...)
		l.finish()
	})
	t.Run("stop, and release", func(t *testing.T) {
		l := newLeakLab(t)
		r := l.start()
		l.linuxForwards(true)
		if out, err := l.Router.Run(program, "release"); err == nil || !strings.Contains(out, "a router runs on lan0, wan0") {
			t.Errorf("release beside a running gateway: %v\n%s", err, out)
		}
		l.send(l.all()...)
		l.sent(0.3)
		r.stop()
		l.finish()
		l.reachable("stopped")
		must(t, l.Router, program, "release")
		l.send(l.all()...)
		<-l.ended
		time.Sleep(100 * time.Millisecond)
		if n := l.clear.Load(); n < protected/2 {
			t.Errorf("after the release, Linux forwarded %d packets of %d: what this test counts may not be what leaks", n, protected)
		}
	})
	t.Run("nftables flushed under a running gateway", func(t *testing.T) {
		l := newLeakLab(t)
		r := l.start()
		l.linuxForwards(true)
		l.send(l.all()...)
		for i := range 3 {
			l.sent(float64(i) / 4)
			must(t, l.Router, "nft", "flush", "ruleset")
			r.awaitLogs("nftables table was changed or removed", i+1)
		}
		r.kill()
		l.finish()
	})
}

// kill ends the router by SIGKILL.
func (r *router) kill() {
	r.t.Helper()
	if err := r.proc.Signal(unix.SIGKILL); err != nil {
		r.t.Fatal(err)
	}
	<-r.proc.Done()
}

func (r *router) awaitLog(text string) { r.t.Helper(); r.awaitLogs(text, 1) }

// awaitLogs waits until the router has logged a text so many times.
func (r *router) awaitLogs(text string, times int) {
	r.t.Helper()
	for end := time.Now().Add(5 * time.Second); strings.Count(r.out.String(), text) < times; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("the router did not log %q %d times:\n%s", text, times, r.out)
		}
	}
}
