package e2e

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
)

const (
	kills      = 5     // per series
	killSeries = 6     // at most: on a busy machine, the medians of some exceed the limit
	killedRate = 1_000 // packets per second of each flow

	// Limits of the time without packets, for the median of a series.
	killedGap     = time.Second
	killedFullGap = 4 * time.Second // with 1,000,000 routes, which the router reads from Linux in a second
)

// A router that is killed under load, and that its unit starts again, forwards within a second. Before and after the gap no
// packet is lost or out of order.
func TestKilledRouterForwardsAgainWithinASecond(t *testing.T) {
	const ports = "ports: [lan0, wan0]\nmetrics: {listen: \"\"}\n"
	t.Run("plain", func(t *testing.T) {
		top := newTopology(t, lab.VethOptions{})
		k := &killed{Topology: top, service: startService(t, top.Router, ports), arrivals: startWatch(t, top.Server, lab.ServerLink)}
		k.check(t, killedGap, lab.Server4.Addr(), lab.Server6.Addr())
	})
	t.Run("full table", func(t *testing.T) {
		top := newTopology(t, lab.VethOptions{})
		n, _ := tableSize()
		ipBatch(t, top.Router, manyRoutes(n, "route add 20.%d.%d.%d/32 via 10.8.0.2")...)
		service := startService(t, top.Router, ports)
		k := &killed{Topology: top, service: service, arrivals: startWatch(t, top.Server, lab.ServerLink)}
		limit := killedGap
		if fullScale() {
			limit = killedFullGap
		}
		k.check(t, limit, lab.Server4.Addr(), netip.MustParseAddr("20.0.1.2"))
		if v := service.equal(); v.RoutesIPv4 < n {
			t.Errorf("the router has %d routes, want %d", v.RoutesIPv4, n)
		}
	})
	t.Run("gateway", func(t *testing.T) {
		testKilledGateway(t, func(l *leakLab, config string) restarted { return startService(t, l.Router, config) })
	})
	t.Run("gateway under systemd", func(t *testing.T) {
		testKilledGateway(t, func(l *leakLab, config string) restarted { return startUnit(t, l.Router, config) })
	})
}

// testKilledGateway kills a gateway that start starts, while Linux forwards. The other gateway accepts all packets, and
// receives none in cleartext.
func testKilledGateway(t *testing.T, start func(l *leakLab, config string) restarted) {
	l := newLeakLab(t)
	config, err := os.ReadFile(l.config)
	require.NoError(t, err)
	k := &killed{Topology: l.Topology, arrivals: decryptingWatch(t, l)}
	numbers := newESPWatch(t, l)
	k.service = start(l, regexp.MustCompile(`(?m)^ *state:.*\n`).ReplaceAllString(string(config), ""))
	l.linuxForwards(true)
	k.check(t, killedGap, inner4[1], inner6[1])
	l.clearNone()
	numbers.unique(t)
}

// restarted is a router that is started again after a failure.
type restarted interface {
	kill(t *testing.T) // ends the process by SIGKILL
	restarts(t *testing.T) int
}

// killed is a router between a client and a server that is killed repeatedly under load.
type killed struct {
	*lab.Topology
	service  restarted
	arrivals *watch // of the load at the server
}

// check kills the router repeatedly and measures the gaps of flows to dsts. The median of a series has a limit.
func (k *killed) check(t *testing.T, limit time.Duration, dsts ...netip.Addr) {
	t.Helper()
	var names []string
	for _, d := range dsts {
		names = append(names, d.String())
	}
	arrived := func(since time.Time) bool {
		for flow := range dsts {
			if !k.arrivals.last(uint32(flow)).After(since) {
				return false
			}
		}
		return true
	}
	resolving := startLoad(t, k.Topology, killedRate, names...) // of neighbors
	eventually(t, 5*time.Second, "packets of all flows arrive", func() bool { return arrived(time.Time{}) })
	resolving.end()
	k.arrivals.clear()
	dropped := k.droppedByLinks(t)

	l := startLoad(t, k.Topology, killedRate*len(dsts), names...)
	time.Sleep(5 * effect)
	all, best := 0, time.Hour
	for range killSeries {
		var gaps []time.Duration
		for range kills {
			start := time.Now()
			k.service.kill(t)
			ended := time.Now().Add(effect) // later packets are those of the next process, which starts after RestartSec=
			eventually(t, 30*time.Second, "packets of all flows arrive", func() bool { return arrived(ended) })
			time.Sleep(5 * effect)
			gap := time.Duration(0)
			for flow := range dsts {
				gap = max(gap, longestGap(k.arrivals.of(uint32(flow)), start))
			}
			gaps = append(gaps, gap.Round(time.Millisecond))
		}
		all += kills
		slices.Sort(gaps)
		median := gaps[len(gaps)/2]
		t.Logf("no packets for %v (median) after SIGKILL: %v", median, gaps)
		if best = min(best, median); best <= limit {
			break
		}
	}
	l.end()
	if best > limit {
		t.Errorf("no packets for %v after SIGKILL, want at most %v", best, limit)
	}
	if n := k.service.restarts(t); n != all {
		t.Errorf("%d restarts after %d kills", n, all)
	}
	dropped = k.droppedByLinks(t) - dropped
	for flow := range dsts {
		lost, disorder := missing(l.sent[flow].Load(), k.arrivals.of(uint32(flow)))
		runs := runsOf(lost)
		outside := 0 // of the gaps
		for _, n := range runs[min(all, len(runs)):] {
			outside += n
		}
		if outside > dropped || disorder > 0 {
			t.Errorf("flow %d lost %d packets outside of the gaps, of which Linux dropped %d between the namespaces; %d out of order or twice", flow, outside, dropped, disorder)
		}
	}
}

// droppedByLinks returns the packets that queues of the links on the way have dropped, as they do on a busy machine.
func (k *killed) droppedByLinks(t *testing.T) (n int) {
	t.Helper()
	for _, end := range []lab.End{{Namespace: k.Client, Name: lab.ClientLink}, {Namespace: k.Router, Name: lab.WAN}} {
		link, err := end.Namespace.Link(end.Name)
		require.NoError(t, err)
		n += int(link.Attrs().Statistics.TxDropped)
	}
	return n
}

// runsOf returns the lengths of runs of consecutive numbers, the longest first.
func runsOf(numbers []uint32) (lengths []int) {
	for i, n := range numbers {
		if i == 0 || n != numbers[i-1]+1 {
			lengths = append(lengths, 0)
		}
		lengths[len(lengths)-1]++
	}
	slices.SortFunc(lengths, func(a, b int) int { return b - a })
	return lengths
}

// longestGap returns the longest time between two consecutive arrivals, the second of which is after start.
func longestGap(arrivals []arrival, start time.Time) (gap time.Duration) {
	for i := 1; i < len(arrivals); i++ {
		if arrivals[i].at.After(start) {
			gap = max(gap, arrivals[i].at.Sub(arrivals[i-1].at))
		}
	}
	return gap
}

// decryptingWatch records the packets of a load that the tunnel of the gateway carries, and fails the test if the anti-replay
// window or the ICV check of the other end refuses one.
func decryptingWatch(t *testing.T, l *leakLab) *watch {
	t.Helper()
	sa, err := ipsec.NewSA(ipsec.Config{
		SPI: 0x100, Direction: ipsec.In, Mode: ipsec.Tunnel, Src: lab.WAN4.Addr(), Dst: lab.Server4.Addr(), Suite: "aes128gcm16", Key: bytes.Clone(leakKey), ReplayWindow: 32,
	}, 1)
	require.NoError(t, err)
	w := &watch{flows: map[uint32][]arrival{}}
	listen(t, l.Server, lab.ServerLink, func(frame []byte, out bool) {
		if out || len(frame) < 50 || binary.BigEndian.Uint16(frame[12:]) != unix.ETH_P_IP || frame[23] != unix.IPPROTO_ESP {
			return
		}
		ethernet, packet := frame[:14], bytes.Clone(frame[14:])
		at, n, failed := sa.Decapsulate(0, packet, 0, len(packet))
		if failed != ipsec.OK {
			t.Errorf("the other gateway drops a packet: %v", failed)
			return
		}
		w.record(slices.Concat(ethernet, packet[at:at+n]))
	})
	return w
}
