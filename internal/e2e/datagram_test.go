package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/peer"
)

// largeSizes are of pings whose ESP, or whose answer's, no single packet takes: Linux protects the
// whole answer and fragments its ESP.
var largeSizes = []int{1400, 1432, 1440, 1456, 1472, 1500, 1700, 2000, 3000, 9000, 65000}

// Datagrams of any size pass between a host and Linux's own ESP, in tunnels and in transport
// mode, whichever of the three fragments them.
func TestLargeDatagramsWithLinux(t *testing.T) {
	g := newGateways(t)
	var some []tunnel // of every suite, mode and families; in UDP those of IPv4
	for _, u := range tunnels() {
		if !u.pair.ESN && !u.pair.UDP || u.pair.ESN && u.pair.UDP && u.client.Is4() && u.pair.Local.Is4() {
			some = append(some, u)
		}
	}
	var pairs []peer.Pair
	for _, u := range some {
		pairs = append(pairs, u.pair)
	}
	if err := g.peer.Configure(pairs...); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "warproute.yaml")
	for _, fragment := range []string{"before", "after"} {
		g.configuration(path, some...)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), "ipsec:\n", "ipsec:\n  fragment: "+fragment+"\n", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		r := startRouter(t, g.router, "--config", path)
		passed := 0
		for i := range some {
			u := &some[i]
			for _, size := range largeSizes {
				if err := g.pingLarge(u, size); err != nil {
					t.Errorf("fragment %s, %s: %d bytes: %v", fragment, u.name, size, err)
				} else {
					passed++
				}
			}
		}
		t.Logf("fragment %s: %d of %d pings", fragment, passed, len(some)*len(largeSizes))
		if t.Failed() {
			t.Fatalf("the router's drops: %s", must(t, g.router, program, "show", "drops", "--socket", r.socket))
		}
		for _, reason := range []string{"fragments_missing", "fragment_overlap", "xfrm_in_buffer_error", "xfrm_in_tmpl_mismatch", "xfrm_out_state_mode_error"} {
			if n := r.drops(reason); n != 0 {
				t.Errorf("fragment %s: %d packets dropped as %s", fragment, n, reason)
			}
		}
		r.stop()
	}
}

// pingLarge pings the peer. A client that does not know yet which size fits learns it first.
func (g *gateways) pingLarge(u *tunnel, size int) (err error) {
	opts := lab.PingOptions{Source: u.client, Count: 1, Size: size, Timeout: 2 * time.Second}
	for range 3 {
		var told *lab.ICMPError
		if _, err = lab.Ping(g.client, u.peer, opts); err == nil || !errors.As(err, &told) {
			break
		}
	}
	return err
}
