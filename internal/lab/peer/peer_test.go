package peer

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec/suite"
)

// startPeers starts two peers back to back, which share a link.
func startPeers(t *testing.T) (left, right *Peer) {
	t.Helper()
	net, err := lab.Build(lab.VethOptions{}, "left peer0 -- right peer0")
	require.NoError(t, err)
	t.Cleanup(net.Close)
	ends, sides := [2]*lab.Namespace{net["left"], net["right"]}, [2]Side{Left, Right}
	var peers [2]*Peer
	var errs [2]error
	var both sync.WaitGroup
	for i := range peers {
		both.Go(func() {
			peers[i], errs[i] = Start(sides[i].At(ends[i], "peer0", sides[1-i]))
		})
	}
	both.Wait()
	for i, p := range peers {
		if errs[i] != nil {
			t.Error(errs[i])
			continue
		}
		t.Cleanup(func() { p.Close() })
	}
	if t.Failed() {
		t.FailNow()
	}
	return peers[0], peers[1]
}

// configure installs the pairs at the left, and their mirror images at the right.
func configure(t *testing.T, left, right *Peer, pairs ...Pair) {
	t.Helper()
	require.NoError(t, left.Configure(pairs...))
	for i := range pairs {
		pairs[i] = pairs[i].Mirror()
	}
	require.NoError(t, right.Configure(pairs...))
}

// Peers start slowly, so that all tests share one pair.
func TestPeers(t *testing.T) {
	left, right := startPeers(t)
	for _, test := range []struct {
		name string
		run  func(t *testing.T, left, right *Peer)
	}{
		{"every suite and mode carries TCP", testMatrix},
		{"every suite carries pings of all lengths", testPings},
		{"sequence numbers pass 2^32", testSequence},
		{"another key is refused and counted", testOtherKey},
		{"what should be protected is refused in clear", testClear},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, left, right) })
	}
}

func testMatrix(t *testing.T, left, right *Peer) {
	all := Matrix(Left, Right)
	var pairs []Pair
	var flows []Flow
	for _, e := range all {
		pairs, flows = append(pairs, e.Pair), append(flows, e.Flow)
	}
	configure(t, left, right, pairs...)
	if err := left.Exchange(10_000, flows...); err != nil {
		for _, e := range all {
			if strings.Contains(err.Error(), e.Flow.String()+": ") {
				t.Errorf("%s fails", e.Name)
			}
		}
		t.Error(err)
	}
	for _, p := range []*Peer{left, right} {
		if stats, err := p.Stats(); err != nil || len(stats) != 0 {
			t.Errorf("errors counted: %v, %v", stats, err)
		}
		packets, err := p.Packets()
		require.NoError(t, err)
		for _, e := range all {
			for _, sa := range []SA{e.Pair.In, e.Pair.Out} {
				if packets[sa.SPI] < 10 {
					t.Errorf("%s: %d packets by SPI %d, too few for 10,000 bytes", e.Name, packets[sa.SPI], sa.SPI)
				}
			}
		}
	}
}

func testPings(t *testing.T, left, right *Peer) {
	var pairs []Pair
	var flows []Flow
	for _, e := range Matrix(Left, Right)[:len(suite.All)] {
		pairs, flows = append(pairs, e.Pair), append(flows, e.Flow)
	}
	configure(t, left, right, pairs...)
	for i, f := range flows {
		for _, size := range []string{"1", "57", "1400", "4000"} {
			if err := ping(left, f, "-s", size); err != nil {
				t.Errorf("%s, %s bytes: %v", pairs[i].Suite.Name, size, err)
			}
		}
	}
}

func testSequence(t *testing.T, left, right *Peer) {
	e := Matrix(Left, Right)[0]
	e.Pair.ESN, e.Pair.Out.Seq, e.Pair.In.Seq = true, 1<<32-3, 1<<32-5
	configure(t, left, right, e.Pair)
	if err := ping(left, e.Flow, "-c", "10", "-i", "0.01"); err != nil {
		t.Error(err)
	}
	state, err := left.Run("ip", "xfrm", "state", "get", "src", e.Pair.Local.String(), "dst", e.Pair.Remote.String(), "proto", "esp", "spi", fmt.Sprint(e.Pair.Out.SPI))
	if want := "oseq-hi 0x1, oseq 0x7"; err != nil || !strings.Contains(state, want) {
		t.Errorf("ten packets after %d, want %q in %q, %v", e.Pair.Out.Seq, want, state, err)
	}
}

func testOtherKey(t *testing.T, left, right *Peer) {
	for _, e := range Matrix(Left, Right)[:len(suite.All)] {
		other := e.Pair.Mirror()
		other.In.Key, other.In.AuthKey = slices.Clone(other.In.Key), slices.Clone(other.In.AuthKey)
		for _, k := range [][]byte{other.In.Key, other.In.AuthKey} {
			if len(k) > 0 {
				k[0] ^= 1
			}
		}
		require.NoError(t, left.Configure(e.Pair))
		refused(t, left, right, other, e.Flow, "XfrmInStateProtoError")
	}
}

func testClear(t *testing.T, left, right *Peer) {
	e := Matrix(Left, Right)[0]
	require.NoError(t, left.Configure())
	refused(t, left, right, e.Pair.Mirror(), e.Flow, "XfrmInTmplMismatch")
}

// refused configures the right peer and checks the counter by which it refuses packets.
func refused(t *testing.T, left, right *Peer, pair Pair, f Flow, counter string) {
	t.Helper()
	require.NoError(t, right.Configure(pair))
	before, err := right.Stats()
	require.NoError(t, err)
	if err := ping(left, f, "-W", "0.1"); err == nil {
		t.Errorf("%s: a ping was answered", pair.Suite.Name)
	}
	after, err := right.Stats()
	if n := after[counter] - before[counter]; n != 1 || err != nil {
		t.Errorf("%s: %s rose by %d, want 1 (%v, %v)", pair.Suite.Name, counter, n, after, err)
	}
}

func ping(from *Peer, f Flow, args ...string) error {
	_, err := from.Run("ping", append([]string{"-q", "-c", "1", "-W", "1", "-I", f.From.String(), f.To.String()}, args...)...)
	return err
}

func TestStartNamesAMissingLink(t *testing.T) {
	ns, err := lab.New("empty")
	require.NoError(t, err)
	defer ns.Close()
	if p, err := Start(Config{Namespace: ns, Link: "missing0"}); err == nil || !strings.Contains(err.Error(), "missing0") {
		p.Close()
		t.Errorf("got %v, want an error that names the link", err)
	}
}
