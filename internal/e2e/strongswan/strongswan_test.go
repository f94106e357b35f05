// Package strongswan tests the warproute program as an IPsec gateway whose keys are
// agreed on by strongSwan, as Debian packs it, over Linux's XFRM.
//
// It takes a kernel that has ESP and AF_XDP, so all of it runs in a virtual machine.
package strongswan

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/guest"
)

// inGuest has the test binary, run by TestStrongSwan in a virtual machine, be the test.
// Its value is the program under test.
const inGuest = "STRONGSWAN_TEST_IN_GUEST"

func TestStrongSwan(t *testing.T) {
	if program := os.Getenv(inGuest); program != "" {
		testTunnel(t, program)
		return
	}
	if testing.Short() {
		t.Skip("-short: boots a virtual machine, and rekeys in real time: 60 s")
	}
	dir := t.TempDir()
	program, test := filepath.Join(dir, "warproute"), filepath.Join(dir, "strongswan.test")
	if err := guest.Build(program, "github.com/warproute/warproute/cmd/warproute"); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "test", "-c", "-o", test, ".") // a guest has no room for the race detector
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the test for the guest: %v: %s", err, out)
	}
	g, err := guest.StartVM("../../../out/kernel") // where the Makefile has it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	if _, err := g.Run("modprobe", "-a", "veth", "bridge", "xfrm_user", "esp4", "drbg", "seqiv"); err != nil {
		t.Fatal(err)
	}
	// With one processor Go would leave what waits in a system call there for 10 ms.
	out, err := g.Run("env", inGuest+"="+program, "GOMAXPROCS=4", test, "-test.run", "^TestStrongSwan$", "-test.v", "-test.timeout", "110s")
	if err != nil {
		t.Fatal(err) // with the output
	}
	if !strings.Contains(out, "--- PASS: TestStrongSwan") {
		t.Fatalf("the test did not run in the guest: %s", out)
	}
	t.Log(out)
}

// testTunnel has traffic bring a tunnel up, be rekeyed from either side and by a limit while
// it is carried, and lose the tunnel, which comes up again by itself when it can.
func testTunnel(t *testing.T, program string) {
	n := newNetwork(t, program)
	w := n.watch()

	n.answered("traffic has brought the tunnel up")
	n.agrees("when the tunnel is up", 2)
	for _, f := range families {
		if _, err := lab.Ping(n.client, f.server.Addr(), lab.PingOptions{Timeout: 3 * time.Second}); err != nil {
			t.Fatal(err)
		}
	}

	var loads []*load
	for _, f := range families {
		loads = append(loads, n.startLoad(f))
	}
	time.Sleep(time.Second)
	for range 2 {
		n.rekey("from our side", func() { n.a.swanctl("--rekey", "--child", "net") })
		n.rekey("from the peer's side", func() { n.b.swanctl("--rekey", "--child", "net") })
	}
	n.rekey("by a limit", n.transfer) // which brings it near
	time.Sleep(time.Second)
	for _, l := range loads {
		l.end(t)
	}
	if t.Failed() {
		n.refusals()
	}
	n.agrees("after the load", 2)
	w.check(true)

	n.b.load("") // so that it agrees to no other
	n.a.swanctl("--terminate", "--ike", "peer")
	n.agrees("when the tunnel is down", 0)
	dropped := n.drops("xfrm_out_no_states")
	const pings = 5
	for _, f := range families {
		if r, _ := lab.Ping(n.client, f.server.Addr(), lab.PingOptions{Count: pings, Timeout: 100 * time.Millisecond}); r.Received > 0 {
			t.Errorf("without a tunnel, %d pings to %v are answered", r.Received, f.server.Addr())
		}
	}
	if got := n.drops("xfrm_out_no_states") - dropped; got != pings*uint64(len(families)) {
		t.Errorf("without a tunnel, %d packets dropped for want of an association", got)
	}
	w.check(false)

	n.b.load("swanctl.conf")
	n.answered("traffic has brought the tunnel up again")
	n.agrees("when the tunnel is up again", 2)
	for _, f := range families {
		l := n.startLoad(f)
		time.Sleep(500 * time.Millisecond)
		l.end(t)
	}
	n.agrees("at the end", 2)
	w.check(true)
	shown := n.run(n.a.Namespace, n.program, "show", "sas", "--socket", n.socket)
	for _, m := range stateText.FindAllStringSubmatch(n.run(n.a.Namespace, "ip", "-s", "xfrm", "state"), -1) {
		if !strings.Contains(shown, m[3]) {
			t.Errorf("`warproute show sas` lacks %s:\n%s", m[3], shown)
		}
	}
}
