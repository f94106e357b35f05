package soak

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
)

// bed is a row of routers between a sending client and a counting server.
type bed struct {
	t              *testing.T
	name           string
	client, server *lab.Namespace
	clientLink     string
	serverLink     string
	routers        []*router
	wires          []wire
	frames         [][]byte // sent round-robin

	rate   atomic.Int64 // packets per second; unpaced: maximum
	sent   atomic.Uint64
	load   int64   // 80 % of the maximum, in packets per second
	before account // when the load began
}

const (
	loadPort = 7777 // of the UDP packets
	unpaced  = -1
	burst    = 64 // maximum that a late sender sends at once
)

// wire is a link to a port of a router.
type wire struct {
	ns   *lab.Namespace
	link string
	r    *router
	port string
}

// newBed creates a bed with a load from the client to addresses behind the routers.
func newBed(t *testing.T, name string, client *lab.Namespace, clientLink string, server *lab.Namespace, serverLink string, routers []*router, dsts ...string) *bed {
	t.Helper()
	b := &bed{t: t, name: name, client: client, clientLink: clientLink, server: server, serverLink: serverLink, routers: routers}
	first, last := routers[0], routers[len(routers)-1]
	b.wires = []wire{{client, clientLink, first, "lan0"}, {server, serverLink, last, farPort(routers)}}
	if len(routers) == 2 {
		b.wires = append(b.wires, wire{first.ns, "wan0", last, "wan0"}, wire{last.ns, "wan0", first, "wan0"})
	}
	labtest.Run(t, server, "nft", "add table inet soak; add chain inet soak load { type filter hook prerouting priority -300; }; add rule inet soak load udp dport "+strconv.Itoa(loadPort)+" counter drop")
	mac, err := first.ns.MAC("lan0")
	require.NoError(t, err)
	for _, d := range dsts {
		udp, from := testutil.UDP4, "10.7.0.2"
		if netip.MustParseAddr(d).Is6() {
			udp, from = testutil.UDP6, "fd07::2"
		}
		f := udp(from, d, 1000, loadPort, make([]byte, 22)...)
		copy(f, mac)
		b.frames = append(b.frames, f)
	}
	return b
}

func farPort(routers []*router) string {
	if len(routers) == 1 {
		return "wan0"
	}
	return "lan0"
}

// send sends at the current rate until stop is closed.
func (b *bed) send(stop chan struct{}, done *sync.WaitGroup) {
	fd, err := b.client.PacketSocket(b.clientLink)
	require.NoError(b.t, err)
	done.Go(func() {
		defer unix.Close(fd)
		var due float64
		last := time.Now()
		for n := 0; ; n++ {
			for rate := b.rate.Load(); rate != unpaced; rate = b.rate.Load() {
				now := time.Now()
				due = min(due+now.Sub(last).Seconds()*float64(rate), burst)
				last = now
				if due >= 1 {
					due--
					break
				}
				time.Sleep(200 * time.Microsecond)
				select {
				case <-stop:
					return
				default:
				}
			}
			if unix.Send(fd, b.frames[n%len(b.frames)], 0) == nil {
				b.sent.Add(1)
			}
			if n%1024 == 0 {
				select {
				case <-stop:
					return
				default:
				}
			}
		}
	})
}

var counter = regexp.MustCompile(`counter packets (\d+)`)

// reached returns the number of packets that the server has received.
func (b *bed) reached() uint64 {
	b.t.Helper()
	m := counter.FindStringSubmatch(labtest.Run(b.t, b.server, "nft", "list chain inet soak load"))
	n, _ := strconv.ParseUint(m[1], 10, 64)
	return n
}

// transmitted returns the frames that a link has sent and dropped; it drops without a carrier.
func transmitted(t *testing.T, ns *lab.Namespace, link string) (sent, dropped uint64) {
	t.Helper()
	l, err := ns.Link(link)
	require.NoError(t, err)
	return l.Attrs().Statistics.TxPackets, l.Attrs().Statistics.TxDropped
}

// account counts all frames of a bed.
type account struct {
	sent, reached uint64
	transmitted   []uint64 // by wire
	refused       uint64   // by the links of the routers' ports
	routers       []counts
}

func (b *bed) account() account {
	a := account{sent: b.sent.Load(), reached: b.reached()}
	for _, w := range b.wires {
		n, _ := transmitted(b.t, w.ns, w.link)
		a.transmitted = append(a.transmitted, n)
	}
	for _, r := range b.routers {
		a.routers = append(a.routers, r.counts())
		for _, port := range []string{"lan0", "wan0"} {
			_, n := transmitted(b.t, r.ns, port)
			a.refused += n
		}
	}
	return a
}

// quiet waits, with the load paused, until no frame is in flight, and returns the account.
func (b *bed) quiet() account {
	b.t.Helper()
	last := b.account()
	for end := time.Now().Add(20 * time.Second); ; {
		time.Sleep(150 * time.Millisecond)
		now := b.account()
		busy := fmt.Sprint(now.sent, now.reached, now.transmitted) != fmt.Sprint(last.sent, last.reached, last.transmitted)
		for i, c := range now.routers {
			busy = busy || c.busy != 0 || c.received != last.routers[i].received || c.sent != last.routers[i].sent
		}
		if !busy {
			return now
		}
		if time.Now().After(end) {
			b.t.Errorf("%s: frames still in flight 20 s after the load: %+v", b.name, now)
			return now
		}
		last = now
	}
}

// check compares the account with the counters of the links and the server.
func (b *bed) check(a account) {
	b.t.Helper()
	for i, w := range b.wires {
		for k, r := range b.routers {
			if r != w.r {
				continue
			}
			sent, arrived := a.transmitted[i]-b.before.transmitted[i], a.routers[k].arrived[w.port]-b.before.routers[k].arrived[w.port]
			if sent != arrived {
				b.t.Errorf("%s: %s sent %d frames, and %d arrived at %s of %s", b.name, w.link, sent, arrived, w.port, r.name)
			}
		}
	}
	explained := a.refused - b.before.refused
	for i, c := range a.routers {
		if c.toSocket != c.received {
			b.t.Errorf("%s: XDP gave %d frames to sockets of %s, which received %d", b.name, c.toSocket, b.routers[i].name, c.received)
		}
		explained += c.dropped + c.lost - b.before.routers[i].dropped - b.before.routers[i].lost
	}
	missing := int64(a.sent-b.before.sent) - int64(a.reached-b.before.reached)
	if missing < 0 || uint64(missing) > explained {
		b.t.Errorf("%s: of %d packets %d did not arrive, and the routers account for %d", b.name, a.sent-b.before.sent, missing, explained)
	}
}

// gatewayConfig returns the configuration of one end of a tunnel with the nth keys.
func gatewayConfig(state string, first bool, n int) string {
	key := func(spi int) string { return fmt.Sprintf("%s%08x", strings.Repeat("5a", 16), spi) }
	out, in, near, far, src, dst := 0x1000+2*n, 0x1001+2*n, "10.7.0.0/16", "10.8.0.0/16", "192.0.2.1", "192.0.2.2"
	if !first {
		out, in, near, far, src, dst = in, out, far, near, dst, src
	}
	return fmt.Sprintf(`ports: [{interface: lan0}, {interface: wan0}]
engine: cpu
batch: {max_delay: %dus}
ipsec:
  state: %s
  sas:
    - {name: out, spi: %d, direction: out, src: %[4]s, dst: %[5]s, suite: aes128gcm16, key: "%[6]s"}
    - {name: in, spi: %[7]d, direction: in, src: %[5]s, dst: %[4]s, suite: aes128gcm16, key: "%[8]s"}
  policies:
    - {direction: out, src: %[9]s, dst: %[10]s, action: protect, sa: out}
    - {direction: in, src: %[10]s, dst: %[9]s, action: protect, sa: in}
`, 20+n%30, state, out, src, dst, key(out), in, key(in), near, far)
}
