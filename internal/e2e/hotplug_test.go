package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// third is a host behind a third port of a router between two others, which comes and goes:
//
//	client ─── lan0  router  wan0 ─── server
//	             │
//	           NAME 10.20.0.1/24
//	             │
//	           guest0 10.20.0.2/24   guest
type third struct {
	*lab.Topology
	t     *testing.T
	guest *lab.Namespace
}

func newThird(t *testing.T) *third {
	t.Helper()
	x := &third{Topology: newTopology(t, lab.VethOptions{}), t: t}
	var err error
	x.guest, err = lab.New("guest")
	require.NoError(t, err)
	t.Cleanup(func() { x.guest.Close() })
	return x
}

// plug creates the link with a name in the router.
func (x *third) plug(name string) {
	x.t.Helper()
	require.NoError(x.t, lab.Veth(lab.End{Namespace: x.guest, Name: "guest0"}, lab.End{Namespace: x.Router, Name: name}, lab.VethOptions{}))
	require.NoError(x.t, x.guest.AddAddr("guest0", netip.MustParsePrefix("10.20.0.2/24")))
	require.NoError(x.t, x.guest.AddRoute(netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr("10.20.0.1")))
	require.NoError(x.t, x.Router.AddAddr(name, netip.MustParsePrefix("10.20.0.1/24")))
}

func (x *third) unplug(name string) { x.t.Helper(); ip(x.t, x.Router, "link del "+name) }

// reaches waits until the guest and the server reach each other.
func (x *third) reaches() {
	x.t.Helper()
	eventually(x.t, 10*time.Second, "the guest reaches the server", func() bool {
		_, err := lab.Ping(x.guest, lab.Server4.Addr(), lab.PingOptions{Count: 1, Timeout: 200 * time.Millisecond})
		return err == nil
	})
}

// portNames returns the names of the router's ports.
func (r *router) portNames() (names []string) {
	r.T.Helper()
	var ports []status.Port
	require.NoError(r.T, r.Get("/ports", &ports))
	for _, p := range ports {
		names = append(names, p.Name)
	}
	return names
}

// awaitPorts waits until the router has exactly these ports, besides the sum of removed ones.
func (r *router) awaitPorts(want ...string) {
	r.T.Helper()
	got := ""
	eventually(r.T, 10*time.Second, "the ports are "+strings.Join(want, " "), func() bool {
		got = strings.TrimSpace(strings.ReplaceAll(strings.Join(r.portNames(), " "), "(removed)", ""))
		return got == strings.Join(want, " ")
	})
}

// resources are those of a process that a leak consumes. Rings are mappings of sockets; memory of Go's runtime and of its
// threads, whose number depends on how busy the machine is, does not count.
type resources struct{ descriptors, rings, threads int }

func (r *router) resources() (n resources) {
	r.T.Helper()
	dir := fmt.Sprintf("/proc/%d/", r.Process.Pid())
	fds, err := os.ReadDir(dir + "fd")
	require.NoError(r.T, err)
	maps, err := os.ReadFile(dir + "maps")
	require.NoError(r.T, err)
	tasks, err := os.ReadDir(dir + "task")
	require.NoError(r.T, err)
	return resources{len(fds), strings.Count(string(maps), "socket:["), len(tasks)}
}

// freeFrames returns the number of frames in the workers' pools.
func (r *router) freeFrames() (n int64) {
	r.T.Helper()
	e, err := r.engine()
	require.NoError(r.T, err)
	for _, f := range e.Frames {
		n += f.Free
	}
	return n
}

// Under a load between two ports, a third is created, used, renamed, used and deleted, again and again. The load loses no
// packet, the router nothing that it needs for a port, and no packet is uncounted.
func TestPortsComeAndGoUnderLoad(t *testing.T) {
	rounds := 40
	switch {
	case fullScale():
		rounds = 300
	case testing.Short():
		rounds = 10
	}
	x := newThird(t)
	path := filepath.Join(t.TempDir(), "warproute.yaml")
	writeFile(t, path, "ports: [lan0, wan0, \"guest?\", \"extra*\"]\n")
	r := startRouter(t, x.Router, "--config", path)
	for _, s := range servers {
		mustPing(t, x.Client, netip.MustParseAddr(s), lab.PingOptions{Count: 10})
	}
	server := startWatch(t, x.Server, lab.ServerLink)
	l := startLoad(t, x.Topology, 2000, servers...)
	var before resources
	var frames int64
	for round := range rounds {
		x.plug("guest1")
		r.awaitPorts("lan0", "wan0", "guest1")
		x.reaches()
		name := "guest1"
		if round%2 == 0 { // Linux renames a link that is up
			ip(t, x.Router, "link set guest1 name extra1")
			name = "extra1"
			r.awaitPorts("lan0", "wan0", name)
			x.reaches()
		}
		if round%4 == 0 {
			ip(t, x.Router, "link set "+name+" down")
			x.Router.SetUp(name)
			ip(t, x.Router, "addr replace 10.20.0.1/24 dev "+name)
			x.reaches()
		}
		x.unplug(name)
		r.awaitPorts("lan0", "wan0")
		if round == 4 { // what is allocated once is
			before, frames = r.resources(), r.freeFrames()
		}
	}
	l.end()
	for flow := range servers {
		if lost, disorder := missing(l.sent[flow].Load(), server.of(uint32(flow))); len(lost)+disorder > 0 {
			t.Errorf("flow %d: %d lost, %d out of order", flow, len(lost), disorder)
		}
	}
	if now := r.resources(); now.descriptors > before.descriptors+3 || now.rings != before.rings || now.rings == 0 || now.threads > before.threads+8 {
		t.Errorf("resources %+v, after %d rounds of %d %+v", before, 5, rounds, now)
	}
	if now := r.freeFrames(); now < frames-int64(rounds) {
		t.Errorf("%d free frames, then %d", frames, now)
	}
	t.Logf("resources %+v and %d free frames, then %+v and %d", before, frames, r.resources(), r.freeFrames())
	b := r.Stop()
	if b.Arrived != b.Linux+b.Lost+b.Received || b.Received != b.Transmitted+b.Dropped {
		t.Errorf("the account does not add up: %+v\n%s", b, r.Out)
	}
}

// A port in use is deleted while packets cross it in both directions: those in flight are counted.
func TestAccountOfADeletedPortIsExact(t *testing.T) {
	t.Parallel()
	x := newThird(t)
	path := filepath.Join(t.TempDir(), "warproute.yaml")
	writeFile(t, path, "ports: [\"*\"]\n")
	r := startRouter(t, x.Router, "--config", path)
	for range 5 {
		x.plug("guest1")
		r.awaitPorts("lan0", "wan0", "guest1")
		x.reaches()
		flood, err := x.guest.Start(exec.Command("ping", "-q", "-f", "-s", "1000", "-w", "1", lab.Server4.Addr().String()))
		require.NoError(t, err)
		back, err := x.Server.Start(exec.Command("ping", "-q", "-f", "-w", "1", "10.20.0.2"))
		require.NoError(t, err)
		time.Sleep(300 * time.Millisecond)
		x.unplug("guest1")
		<-flood.Done()
		<-back.Done()
		r.awaitPorts("lan0", "wan0")
	}
	b := r.Stop()
	if b.Arrived != b.Linux+b.Lost+b.Received || b.Received != b.Transmitted+b.Dropped || b.Received < 1000 {
		t.Errorf("the account does not add up: %+v\n%s", b, r.Out)
	}
}

// Ports are added and removed by a reload. One that cannot be opened leaves everything as it was.
func TestReloadChangesPorts(t *testing.T) {
	x := newThird(t)
	x.plug("guest1")
	r := startReloading(t, x.Topology)
	server := startWatch(t, x.Server, lab.ServerLink)
	for _, s := range servers {
		mustPing(t, x.Client, netip.MustParseAddr(s), lab.PingOptions{Count: 10})
	}
	l := startLoad(t, x.Topology, 2000, servers...)
	reload := func(text string, wantCode int, want string) {
		t.Helper()
		writeFile(t, r.path, text)
		code, out, errs := r.reload()
		if code != wantCode || !strings.Contains(out+errs, want) {
			t.Errorf("%s: exit code %d, %s%s, want %q", text, code, out, errs, want)
		}
	}
	for range 3 {
		reload("ports: [lan0, wan0, guest1]\n", 0, "+ ports.guest1: mode auto")
		r.awaitPorts("lan0", "wan0", "guest1")
		x.reaches()
		reload("ports: [lan0, wan0, guest1, {interface: missing0}]\n", 78, `no interface "missing0"`)
		reload("ports: [lan0, wan0]\n", 0, "- ports.guest1: mode auto")
		r.awaitPorts("lan0", "wan0")
	}
	// zero-copy is not possible with veth
	reload("ports: [wan0, lan0, {interface: guest1, mode: zero-copy}]\nbatch: {max_delay: 20us}\n", 1, "open port guest1: ")
	r.awaitPorts("lan0", "wan0")
	if e, err := r.engine(); err != nil || e.MaxDelayNS != 50_000 {
		t.Errorf("another change was applied: %+v, %v", e, err)
	}
	reload("ports: [\"?an0\", \"guest*\", \"!guest9\"]\n", 0, "+ ports.guest*")
	r.awaitPorts("lan0", "wan0", "guest1")
	x.reaches()
	out := r.command("show", "interfaces")()
	if !strings.Contains(out, "guest1") || !strings.Contains(out, "matches guest*") || !strings.Contains(out, "no name or pattern") {
		t.Errorf("show interfaces:\n%s", out)
	}
	reload("ports: [lan0, wan0]\n", 0, "- ports.guest*")
	r.awaitPorts("lan0", "wan0")
	x.unplug("guest1")
	l.end()
	for flow := range servers {
		if lost, disorder := missing(l.sent[flow].Load(), server.of(uint32(flow))); len(lost)+disorder > 0 {
			t.Errorf("flow %d: %d lost, %d out of order", flow, len(lost), disorder)
		}
	}
	b := r.Stop()
	if b.Arrived != b.Linux+b.Lost+b.Received || b.Received != b.Transmitted+b.Dropped {
		t.Errorf("the account does not add up: %+v\n%s", b, r.Out)
	}
}

// A flood of links that match a pattern, most of which vanish while they are opened, leaves the router working.
func TestFloodOfLinks(t *testing.T) {
	x := newThird(t)
	path := filepath.Join(t.TempDir(), "warproute.yaml")
	writeFile(t, path, "ports: auto\nmax_ports: 4\n")
	r := startRouter(t, x.Router, "--config", path)
	r.awaitPorts("lan0", "wan0")
	server := startWatch(t, x.Server, lab.ServerLink)
	for _, s := range servers {
		mustPing(t, x.Client, netip.MustParseAddr(s), lab.PingOptions{Count: 10})
	}
	l := startLoad(t, x.Topology, 2000, servers...)
	var create, remove []string
	for i := range 40 {
		create = append(create, fmt.Sprintf("link add f%d up type veth peer name g%d", i, i))
		remove = append(remove, fmt.Sprintf("link del f%d", i))
	}
	batchFile := func(lines []string) string {
		file := filepath.Join(t.TempDir(), "batch")
		writeFile(t, file, strings.Join(lines, "\n")+"\n")
		return file
	}
	for range 5 {
		must(t, x.Router, "ip", "-batch", batchFile(create))
		must(t, x.Router, "ip", "-batch", batchFile(remove))
	}
	must(t, x.Router, "ip", "-batch", batchFile(create))
	eventually(t, 20*time.Second, "the ports are full", func() bool { return len(r.portNames()) >= 4 })
	var all []status.Interface
	eventually(t, 10*time.Second, "a reason for the others", func() bool {
		require.NoError(t, json.Unmarshal([]byte(r.command("show", "interfaces", "--json")()), &all))
		for _, i := range all {
			if !i.Port && strings.Contains(i.Reason, "max_ports") {
				return true
			}
		}
		return false
	})
	must(t, x.Router, "ip", "-batch", batchFile(remove))
	r.awaitPorts("lan0", "wan0")
	x.plug("guest1")
	r.awaitPorts("lan0", "wan0", "guest1")
	x.reaches()
	l.end()
	for flow := range servers {
		if lost, disorder := missing(l.sent[flow].Load(), server.of(uint32(flow))); len(lost)+disorder > 0 {
			t.Errorf("flow %d: %d lost, %d out of order", flow, len(lost), disorder)
		}
	}
	b := r.Stop()
	if b.Arrived != b.Linux+b.Lost+b.Received || b.Received != b.Transmitted+b.Dropped {
		t.Errorf("the account does not add up: %+v\n%s", b, r.Out)
	}
}

// A router without a port starts, forwards between the ports that appear, and can lose all of them.
func TestRouterStartsWithoutPorts(t *testing.T) {
	x := newThird(t)
	ip(t, x.Router, "link set lan0 down", "link set wan0 down")
	path := filepath.Join(t.TempDir(), "warproute.yaml")
	writeFile(t, path, "ports: auto\n")
	r := startRouter(t, x.Router, "--config", path)
	for range 2 {
		r.awaitPorts()
		for _, link := range []string{lab.LAN, lab.WAN} {
			require.NoError(t, x.Router.SetUp(link))
		}
		r.awaitPorts("lan0", "wan0")
		eventually(t, 5*time.Second, "the server is reached", func() bool {
			_, err := lab.Ping(x.Client, lab.Server4.Addr(), lab.PingOptions{Count: 1, Timeout: 200 * time.Millisecond})
			return err == nil
		})
		ip(t, x.Router, "link set lan0 down", "link set wan0 down", "link set lan0 name x", "link set wan0 name y")
		r.awaitPorts()
		ip(t, x.Router, "link set x name lan0", "link set y name wan0")
	}
	b := r.Stop()
	if b.Arrived != b.Linux+b.Lost+b.Received || b.Received != b.Transmitted+b.Dropped {
		t.Errorf("the account does not add up: %+v\n%s", b, r.Out)
	}
}
