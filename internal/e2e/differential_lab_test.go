package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
)

// The network of the differential test, twice: in one Linux forwards, in the other
// warproute. The sides of the router are packet sockets of the test, which are all hosts.
//
//	lan  10.7.0.2 to .9, fd07::2 to ::9; behind .2, ::2:  10.32/11, fd32::/32
//	     10.7.0.1/24, fd07::1/64
//	wan  10.8.0.2 to .9, fd08::2 to ::9; behind .2, ::2:  10.64/11, fd33::/32, and 10.20/16, fd20::/32;
//	     10.26/15, fd26::/31 with MTUs of the routes
//	     10.8.0.1/24, fd08::1/64
//	nar  10.9.0.2 to .9, fd09::2 to ::9; behind .2, ::2:  10.96/11, fd34::/32, and 10.21/16, fd21::/32
//	     10.9.0.1/24, fd09::1/64, with an MTU of 1300
//
// There are routes of other types, and one from IPv4 via IPv6, see sideRoutes; there is
// no default route.
var sides = [...]string{"lan", "wan", "nar"}

const (
	lanSide, wanSide, narSide = 0, 1, 2
	narMTU                    = 1300
)

var sideRoutes = []string{
	"10.32.0.0/11 via 10.7.0.2", "fd32::/32 via fd07::2", "10.64.0.0/11 via 10.8.0.2", "fd33::/32 via fd08::2",
	"10.96.0.0/11 via 10.9.0.2", "fd34::/32 via fd09::2", "10.20.0.0/16 via 10.8.0.2", "fd20::/32 via fd08::2",
	"10.26.0.0/16 via 10.8.0.2 mtu 1300", "fd26::/32 via fd08::2 mtu 1310", "10.27.0.0/16 via 10.8.0.2 mtu lock 1400", "fd27::/32 via fd08::2 mtu lock 1310",
	"10.21.0.0/16 via 10.9.0.2", "fd21::/32 via fd09::2", "10.25.0.0/16 via inet6 fd08::2",
	"blackhole 10.22.0.0/16", "blackhole fd22::/32", "unreachable 10.23.0.0/16", "unreachable fd23::/32",
	"prohibit 10.24.0.0/16", "prohibit fd24::/32", "blackhole 10.20.5.0/24", "blackhole fd20:5::/32",
}

func hostMAC(side int) net.HardwareAddr   { return net.HardwareAddr{2, 0, 0, 0, byte(side), 2} }
func routerMAC(side int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, byte(side), 1} }

// side4 and side6 return an address of a side's network: 1 is the router's.
func side4(side, host int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(7 + side), 0, byte(host)})
}
func side6(side, host int) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfd, byte(7 + side), 15: byte(host)})
}

// contender is a router with a socket on each side.
type contender struct {
	t      *testing.T
	name   string
	router *lab.Namespace
	hosts  *lab.Namespace
	fds    [len(sides)]int

	mu       sync.Mutex
	received []arrived
	marks    map[uint32]bool
}

// arrived is a frame that left the router.
type arrived struct {
	side  int
	frame []byte
}

// newContender builds the network. It does not forward yet.
func newContender(t *testing.T, name string) *contender {
	t.Helper()
	c := &contender{t: t, name: name, marks: map[uint32]bool{}}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	c.router, err = lab.New(name)
	check(err)
	t.Cleanup(func() { c.router.Close() })
	c.hosts, err = lab.New(name + "'s hosts")
	check(err)
	t.Cleanup(func() { c.hosts.Close() })
	check(c.hosts.Sysctl("net.ipv6.conf.default.disable_ipv6", "1")) // the hosts are the test's sockets
	for name, value := range map[string]string{
		"net.ipv4.icmp_ratemask": "0", "net.ipv4.icmp_msgs_per_sec": "1000000", "net.ipv4.icmp_msgs_burst": "1000000", "net.ipv6.icmp.ratelimit": "0",
		"net.ipv4.conf.all.rp_filter": "0", "net.ipv4.conf.default.rp_filter": "0",
		"net.ipv4.conf.all.send_redirects": "0", "net.ipv4.conf.default.send_redirects": "0",
		"net.ipv4.ipfrag_time": "600", "net.ipv6.ip6frag_time": "600", // no errors about fragments for the router itself
		"net.ipv6.auto_flowlabels": "0", "net.ipv6.conf.default.router_solicitations": "0",
		"net.ipv4.ip_forward": "0", "net.ipv6.conf.all.forwarding": "0",
	} {
		check(c.router.Sysctl(name, value))
	}
	for i, s := range sides {
		check(lab.Veth(lab.End{Namespace: c.hosts, Name: s, MAC: hostMAC(i)}, lab.End{Namespace: c.router, Name: s, MAC: routerMAC(i)}, lab.VethOptions{}))
		check(c.router.AddAddr(s, netip.PrefixFrom(side4(i, 1), 24)))
		check(c.router.AddAddr(s, netip.PrefixFrom(side6(i, 1), 64)))
		for host := 2; host < 10; host++ {
			check(c.router.AddNeighbor(s, side4(i, host), hostMAC(i)))
			check(c.router.AddNeighbor(s, side6(i, host), hostMAC(i)))
		}
		check(c.router.AddNeighbor(s, netip.MustParseAddr("fe80::2"), hostMAC(i)))
	}
	must(t, c.router, "ip", "link", "set", "nar", "mtu", fmt.Sprint(narMTU))
	for _, r := range sideRoutes {
		args := []string{"route", "add"}
		if strings.Contains(r, "::/") {
			args = slices.Insert(args, 0, "-6")
		}
		must(t, c.router, "ip", append(args, strings.Fields(r)...)...)
	}
	return c
}

// linuxContender is Linux's own forwarding.
func linuxContender(t *testing.T) *contender {
	c := newContender(t, "linux")
	c.forward()
	c.listen()
	return c
}

// forward has Linux forward.
func (c *contender) forward() {
	c.t.Helper()
	for _, name := range []string{"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"} {
		if err := c.router.Sysctl(name, "1"); err != nil {
			c.t.Fatal(err)
		}
	}
}

// warprouteContender is the program, its ICMP errors as good as not limited. What it leaves
// to Linux may be forwarded there, or not. prepare is called before it starts.
func warprouteContender(t *testing.T, forwarding bool, prepare ...func(*contender)) (*contender, *router) {
	c := newContender(t, "warproute")
	for _, f := range prepare {
		f(c)
	}
	if forwarding {
		c.forward()
	}
	file := filepath.Join(t.TempDir(), "w.yaml")
	// Small chunks, so that a chunk's errors and fragments always have room.
	const text = `
ports: [{interface: lan}, {interface: wan}, {interface: nar}]
batch: {max_packets: 64}
icmp: {per_second: 1000000, burst: 1000000, source_per_second: 1000000, source_burst: 1000000}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startRouter(t, c.router, "--config", file)
	c.listen()
	return c, r
}

// listen opens the sockets of the sides and collects what arrives at them.
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
		if id, is := tagOf(buf[:n]); is && id >= firstMark {
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

// firstMark is the number above which packets are marks.
const firstMark = 1 << 31

// settle waits until whatever was sent from a side has come out: packets that are
// forwarded to each side, refused, and answered by the router's host have.
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
			c.t.Fatalf("%s: of the packets that were sent last from %s, %v did not come out", c.name, sides[side], missing)
		}
	}
}

// lost returns how many frames the test's sockets had no room for.
func (c *contender) lost() (n uint32) {
	for _, fd := range c.fds {
		s, err := unix.GetsockoptTpacketStats(fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
		if err != nil {
			c.t.Fatal(err)
		}
		n += s.Drops
	}
	return n
}
