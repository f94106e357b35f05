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
	"github.com/warproute/warproute/internal/require"
)

// largeSizes are the sizes of pings whose request or reply does not fit one ESP packet. Linux encrypts
// the whole reply and fragments the ESP packet.
var largeSizes = []int{1400, 1432, 1440, 1456, 1472, 1500, 1700, 2000, 3000, 9000, 65000}

// Datagrams of any size pass between a host and Linux's ESP in tunnel and transport mode, fragmented by
// the host, the router or Linux.
func TestLargeDatagramsInteroperateWithLinux(t *testing.T) {
	t.Parallel()
	g := newGateways(t)
	var some []tunnel // of every suite, mode and family; in UDP only IPv4
	for _, u := range tunnels() {
		if !u.pair.ESN && !u.pair.UDP || u.pair.ESN && u.pair.UDP && u.client.Is4() && u.pair.Local.Is4() {
			some = append(some, u)
		}
	}
	var pairs []peer.Pair
	for _, u := range some {
		pairs = append(pairs, u.pair)
	}
	require.NoError(t, g.peer.Configure(pairs...))
	path := filepath.Join(t.TempDir(), "warproute.yaml")
	for _, fragment := range []string{"before", "after"} {
		g.configuration(path, some...)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		writeFile(t, path, strings.Replace(string(text), "ipsec:\n", "ipsec:\n  fragment: "+fragment+"\n", 1))
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
			t.Fatalf("the router's drops: %s", must(t, g.router, program, "show", "drops", "--socket", r.Socket))
		}
		for _, reason := range []string{"fragments_missing", "fragment_overlap", "xfrm_in_buffer_error", "xfrm_in_tmpl_mismatch", "xfrm_out_state_mode_error"} {
			if n := r.Drops(reason); n != 0 {
				t.Errorf("fragment %s: %d packets dropped as %s", fragment, n, reason)
			}
		}
		r.Stop()
	}
}

// pingLarge pings the peer, again after each path MTU error.
func (g *gateways) pingLarge(u *tunnel, size int) (err error) {
	opts := lab.PingOptions{Source: u.client, Count: 1, Size: size, Timeout: 2 * time.Second}
	for range 3 {
		var tooBig *lab.ICMPError
		if _, err = lab.Ping(g.client, u.peer, opts); err == nil || !errors.As(err, &tooBig) {
			break
		}
	}
	return err
}
