// Package soak loads routers to 80 % of their maximum for a configured time, changes
// everything that can change under traffic, and checks that all packets are accounted for and that no
// resource grows.
package soak

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// TimeVariable is the environment variable with the duration: `make soak TIME=1h`.
const TimeVariable = "WARPROUTE_SOAK"

var program string // under test

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "warproute-soak")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "warproute")
		if out, err := exec.Command("go", "build", "-o", program, "../../../cmd/warproute").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the router: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

func TestSoak(t *testing.T) {
	length := 10 * time.Second
	if text := os.Getenv(TimeVariable); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil || length < 10*time.Second {
			t.Fatalf("%s=%s: want a duration of at least 10s, such as 1h", TimeVariable, text)
		}
	}
	device := newGPU(t)
	top, plain := newPlain(t, device)
	gateways, rekey := newGateways(t)
	beds := []*bed{plain, gateways}

	stop, senders := make(chan struct{}), sync.WaitGroup{}
	defer senders.Wait()
	defer close(stop)
	for _, b := range beds {
		b.send(stop, &senders)
	}
	measure(t, beds, length)
	for _, b := range beds {
		b.before = b.quiet()
	}

	changes := newChanges(t, top, plain, device, rekey)
	watch := newWatch(t, beds, changes, length)
	watch.run()
	for _, b := range beds {
		for _, r := range b.routers {
			r.stop()
		}
	}
}

// measure measures the maximum rates of the beds under load together, and sets 80 % of them.
func measure(t *testing.T, beds []*bed, length time.Duration) {
	t.Helper()
	all := func(rate int64) {
		for _, b := range beds {
			b.rate.Store(rate)
		}
	}
	all(1000) // resolves neighbors
	time.Sleep(500 * time.Millisecond)
	start, before := time.Now(), []uint64{}
	for _, b := range beds {
		before = append(before, b.reached())
	}
	all(unpaced)
	time.Sleep(min(length/20, 3*time.Second))
	var most []int64
	for i, b := range beds {
		most = append(most, int64(float64(b.reached()-before[i])/time.Since(start).Seconds()))
	}
	for i, b := range beds {
		b.rate.Store(0)
		t.Logf("%s: forwards %d packets/s at most; the load is 80 %% of it", b.name, most[i])
		if most[i] < 1000 {
			t.Fatalf("%s: implausibly few", b.name)
		}
		b.load = most[i] * 8 / 10
	}
}

// newPlain starts a router with the GPU engine.
func newPlain(t *testing.T, device *gpu) (*lab.Topology, *bed) {
	t.Helper()
	top, err := lab.NewTopology(lab.VethOptions{})
	require.NoError(t, err)
	t.Cleanup(top.Close)
	require.NoError(t, top.Server.Sysctl("net.ipv6.conf.all.keep_addr_on_down", "1"))
	r := startRouter(t, top.Router, "router", plainConfig(0), device.environment())
	require.NoError(t, top.Router.AddRoute(netip.MustParsePrefix("10.50.0.0/16"), lab.Server4.Addr()))
	return top, newBed(t, "router", top.Client, lab.ClientLink, top.Server, lab.ServerLink, []*router{r}, "10.8.0.2", "10.50.0.1", "fd08::2")
}

func plainConfig(n int) string {
	return fmt.Sprintf("ports: [{interface: lan0}, {interface: wan0}]\nengine: gpu\nbatch: {max_packets: %d, max_delay: %dus}\n", 1024>>(n%3), 20+n%40)
}

// newGateways starts the two ends of a tunnel and returns a function that installs the nth keys.
func newGateways(t *testing.T) (*bed, func(n int)) {
	t.Helper()
	net, err := lab.Build(lab.VethOptions{}, `
client client0 10.7.0.2/24 -- near lan0 10.7.0.1/24
near wan0 192.0.2.1/24 -- far wan0 192.0.2.2/24
server server0 10.8.0.2/24 -- far lan0 10.8.0.1/24
near route 10.8.0.0/16 192.0.2.2
far route 10.7.0.0/16 192.0.2.1`)
	require.NoError(t, err)
	t.Cleanup(net.Close)
	states := []string{t.TempDir(), t.TempDir()}
	near := startRouter(t, net["near"], "gateway", gatewayConfig(states[0], true, 0), nil)
	far := startRouter(t, net["far"], "its peer", gatewayConfig(states[1], false, 0), nil)
	rekey := func(n int) { // the receiver first
		far.reload(gatewayConfig(states[1], false, n))
		near.reload(gatewayConfig(states[0], true, n))
	}
	return newBed(t, "gateways", net["client"], "client0", net["server"], "server0", []*router{near, far}, "10.8.0.2"), rekey
}

// changes run independently of each other during the load, unless they are paused.
type changes struct {
	pause sync.RWMutex // held for reading by a change
	stop  chan struct{}
	done  sync.WaitGroup
}

func newChanges(t *testing.T, top *lab.Topology, plain *bed, device *gpu, rekey func(int)) *changes {
	c := &changes{stop: make(chan struct{})}
	ip := func(ns *lab.Namespace, args ...string) {
		if _, err := ns.Run("ip", args...); err != nil {
			t.Error(err)
		}
	}
	c.every(300*time.Millisecond, func(n int) { // a route of the load, and another one
		ip(top.Router, "route", "del", "10.50.0.0/16")
		ip(top.Router, "route", "replace", fmt.Sprintf("20.%d.0.0/16", n%200), "via", "10.8.0.2")
		ip(top.Router, "route", "add", "10.50.0.0/16", "via", "10.8.0.2")
	})
	c.every(700*time.Millisecond, func(int) { ip(top.Router, "neigh", "flush", "dev", lab.WAN) })
	c.every(1500*time.Millisecond, func(n int) { plain.routers[0].reload(plainConfig(n)) })
	c.every(3*time.Second, rekey)
	c.every(2*time.Second, func(n int) { // like another process's time slices, and each third time like a fault
		device.standStill(true)
		time.Sleep(40*time.Millisecond + rand.N(80*time.Millisecond))
		if n%3 == 1 {
			time.Sleep(1100 * time.Millisecond) // longer than the limit of a GPU that others use
		}
		device.standStill(false)
	})
	c.every(5*time.Second, func(int) { // the carrier of the router's port flaps
		require.NoError(t, top.Server.SetDown(lab.ServerLink))
		time.Sleep(30 * time.Millisecond)
		require.NoError(t, top.Server.SetUp(lab.ServerLink))
	})
	return c
}

// every runs a change periodically; n counts from 1.
func (c *changes) every(d time.Duration, change func(n int)) {
	c.done.Go(func() {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-c.stop:
				return
			case <-tick.C:
			}
			c.pause.RLock()
			change(n)
			c.pause.RUnlock()
		}
	})
}
