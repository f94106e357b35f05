package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/peer"
	"github.com/warproute/warproute/internal/require"
)

// Linux's ESP and the router's interoperate: every suite, tunnels of all families and transport
// mode, with and without ESN and UDP, in both directions.
func TestESPInteroperatesWithLinux(t *testing.T) {
	t.Parallel()
	g := newGateways(t)
	all := tunnels()
	var pairs []peer.Pair
	for _, u := range all {
		pairs = append(pairs, u.pair)
	}
	require.NoError(t, g.peer.Configure(pairs...))
	r := startRouter(t, g.router, "--config", g.configuration(filepath.Join(t.TempDir(), "warproute.yaml"), all...))
	before, err := g.peer.Stats()
	require.NoError(t, err)
	for i := range all {
		u := &all[i]
		if t.Failed() {
			t.Fatalf("the router's drops: %s", must(t, g.router, program, "show", "drops", "--socket", r.Socket))
		}
		sizes := []int{1, 56, 57 + i, 1300}
		if u.pair.UDP && u.pair.Local.Is6() {
			sizes[0] = 8 // Linux 6.1 drops ESP in UDP over IPv6 that is shorter than 40 bytes
		}
		if u.pair.Mode == peer.Tunnel { // some of these become fragments
			sizes = append(sizes, 1400)
		}
		for _, size := range sizes {
			opts := lab.PingOptions{Source: u.client, Count: 1, Size: size, Timeout: 3 * time.Second}
			_, err := lab.Ping(g.client, u.peer, opts)
			var tooBig *lab.ICMPError
			for try := 0; try < 3 && size > 1300 && errors.As(err, &tooBig); try++ { // the client learns the path MTU
				_, err = lab.Ping(g.client, u.peer, opts)
			}
			if err != nil {
				t.Errorf("%s: %d bytes: %v", u.name, size, err)
			}
		}
		if err := g.exchange(u, 20_000); err != nil {
			t.Errorf("%s: TCP: %v", u.name, err)
		}
	}
	after, err := g.peer.Stats()
	require.NoError(t, err)
	for name, n := range after {
		if n != before[name] {
			t.Errorf("the peer counts %d of %s", n-before[name], name)
		}
	}
	var sas []status.SA
	require.NoError(t, r.Get("/sas", &sas))
	if len(sas) != 2*len(all) {
		t.Errorf("%d SAs, want %d", len(sas), 2*len(all))
	}
	for _, s := range sas {
		if s.Packets < 10 || s.Replays+s.ICVFailures != 0 {
			t.Errorf("%+v", s)
		}
	}
}

// A reload under traffic replaces only the SAs that differ; an invalid configuration changes
// nothing.
func TestReloadReplacesOnlyChangedSAs(t *testing.T) {
	g := newGateways(t)
	all := tunnels()[:2]
	path := filepath.Join(t.TempDir(), "warproute.yaml")
	require.NoError(t, g.peer.Configure(all[0].pair, all[1].pair))
	r := startRouter(t, g.router, "--config", g.configuration(path, all...))
	ping := func(u *tunnel) error {
		_, err := lab.Ping(g.client, u.peer, lab.PingOptions{Source: u.client, Count: 1})
		return err
	}
	for i := range all {
		require.NoError(t, ping(&all[i]))
	}
	reload := func(want string) {
		t.Helper()
		before := strings.Count(r.Out.String(), want)
		require.NoError(t, r.Process.Signal(unix.SIGHUP))
		r.awaitLogs(want, before+1)
	}
	sequence := func(name string) uint64 {
		t.Helper()
		var sas []status.SA
		require.NoError(t, r.Get("/sas", &sas))
		for _, s := range sas {
			if s.Name == name {
				return s.Sequence
			}
		}
		t.Fatalf("no SA %s among %v", name, sas)
		return 0
	}

	writeFile(t, path, "ports: [{interface: lan0}, {interface: wan0}]\nipsec: {sas: [{}]}\n")
	reload("configuration not reloaded")
	if err := ping(&all[0]); err != nil {
		t.Errorf("after an invalid configuration: %v", err)
	}

	s := all[1].pair.Suite
	all[1].pair.In, all[1].pair.Out = peer.RandomSA(s, 0x5001), peer.RandomSA(s, 0x5002)
	g.configuration(path, all...)
	reload("configuration reloaded")
	all[0].pair.Out.Seq = 100 // the peer restarts, and must not repeat sequence numbers
	require.NoError(t, g.peer.Configure(all[0].pair, all[1].pair))
	for i := range all {
		if err := ping(&all[i]); err != nil {
			t.Errorf("%s after the reload: %v", all[i].name, err)
		}
	}
	if n := sequence("out-0"); n < 3 {
		t.Errorf("the unchanged SA has sent %d packets, want those before the reload, too", n)
	}
	if n := sequence("out-1"); n != 1 {
		t.Errorf("the new SA has sent %d packets, want 1", n)
	}

	// After a restart the sequence numbers continue.
	r.Stop()
	r = startRouter(t, g.router, "--config", path)
	if err := ping(&all[0]); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if n := sequence("out-0"); n < 4 {
		t.Errorf("after a restart the last sequence number is %d", n)
	}
}

// Packets that a policy protects neither leave nor arrive in plaintext.
func TestProtectedPacketsNeverPassInPlaintext(t *testing.T) {
	g := newGateways(t)
	u := tunnels()[0]
	if err := g.peer.Configure(); err != nil { // the peer has no IPsec
		t.Fatal(err)
	}
	r := startRouter(t, g.router, "--config", g.configuration(filepath.Join(t.TempDir(), "warproute.yaml"), u))
	if _, err := lab.Ping(g.client, u.peer, lab.PingOptions{Source: u.client, Count: 1, Timeout: 300 * time.Millisecond}); err == nil {
		t.Error("a ping was answered that the peer could not decrypt")
	}
	if out, err := g.peer.Run("sh", "-c", fmt.Sprintf("ping -c 3 -i 0.1 -W 1 -I %v %v", u.peer, u.client)); err == nil {
		t.Errorf("a plaintext ping was answered:\n%s", out)
	}
	if n := r.Drops("xfrm_in_tmpl_mismatch"); n != 3 {
		t.Errorf("%d plaintext packets refused, want 3", n)
	}
}
