package peer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec/suite"
)

// Two peers back to back:
//
//	10.1.0.0/16 ─┐ left          right ┌─ 10.2.0.0/16
//	fd01::/64   ─┘ 192.0.2.1 192.0.2.2 └─ fd02::/64
//	             2001:db8::1 2001:db8::2
var (
	outer4 = [2]netip.Prefix{netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("192.0.2.2/24")}
	outer6 = [2]netip.Prefix{netip.MustParsePrefix("2001:db8::1/64"), netip.MustParsePrefix("2001:db8::2/64")}
	inner4 = [2]netip.Prefix{netip.MustParsePrefix("10.1.0.1/16"), netip.MustParsePrefix("10.2.0.1/16")}
	inner6 = [2]netip.Prefix{netip.MustParsePrefix("fd01::1/64"), netip.MustParsePrefix("fd02::1/64")}
)

func startPeers(t *testing.T) (left, right *Peer) {
	t.Helper()
	net, err := lab.Build(lab.VethOptions{}, "left peer0 -- right peer0")
	require.NoError(t, err)
	t.Cleanup(net.Close)
	ends := [2]*lab.Namespace{net["left"], net["right"]}
	var peers [2]*Peer
	var errs [2]error
	var both sync.WaitGroup
	for i := range peers {
		both.Go(func() {
			peers[i], errs[i] = Start(Config{
				Namespace: ends[i],
				Link:      "peer0",
				Addresses: []netip.Prefix{outer4[i], outer6[i]},
				Inner:     []netip.Prefix{inner4[i], inner6[i]},
				Routes: []Route{
					{Dst: inner4[1-i].Masked(), Via: outer4[1-i].Addr(), Source: inner4[i].Addr()},
					{Dst: inner6[1-i].Masked(), Via: outer6[1-i].Addr(), Source: inner6[i].Addr()},
				},
			})
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

// nth returns the nth address of a prefix.
func nth(p netip.Prefix, n int) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	b[len(b)-2], b[len(b)-1] = byte(n>>8), byte(n)
	a, _ := netip.AddrFromSlice(b)
	return a
}

// entry is a pair as seen from the left, and its flow.
type entry struct {
	name string
	pair Pair
	flow Flow
}

// matrix returns all combinations of suite, mode, families, ESN and encapsulation, each with its own
// addresses.
func matrix() (all []entry) {
	shapes := []struct {
		name         string
		mode         Mode
		inner, outer [2]netip.Prefix
	}{
		{"tunnel 4 in 4", Tunnel, inner4, outer4},
		{"tunnel 6 in 4", Tunnel, inner6, outer4},
		{"tunnel 4 in 6", Tunnel, inner4, outer6},
		{"tunnel 6 in 6", Tunnel, inner6, outer6},
		{"transport 4", Transport, inner4, inner4},
		{"transport 6", Transport, inner6, inner6},
	}
	for i := range 4 * len(shapes) * len(suite.All) {
		s, shape := &suite.All[i%len(suite.All)], shapes[i/len(suite.All)%len(shapes)]
		variant := i / len(suite.All) / len(shapes)
		flow := Flow{nth(shape.inner[0], 100+i), nth(shape.inner[1], 100+i)}
		pair := Pair{
			Suite: s, Mode: shape.mode, ESN: variant&1 != 0, UDP: variant&2 != 0,
			In: RandomSA(s, uint32(1000+i)), Out: RandomSA(s, uint32(2000+i)),
			Local: shape.outer[0].Addr(), Remote: shape.outer[1].Addr(), LocalNet: host(flow.From), RemoteNet: host(flow.To),
		}
		if pair.Mode == Transport {
			pair.Local, pair.Remote = flow.From, flow.To
		}
		all = append(all, entry{fmt.Sprintf("%s, %s, ESN %v, UDP %v", s.Name, shape.name, pair.ESN, pair.UDP), pair, flow})
	}
	return all
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
	all := matrix()
	var pairs []Pair
	var flows []Flow
	for _, e := range all {
		pairs, flows = append(pairs, e.pair), append(flows, e.flow)
	}
	configure(t, left, right, pairs...)
	if err := left.Exchange(10_000, flows...); err != nil {
		for _, e := range all {
			if strings.Contains(err.Error(), e.flow.String()+": ") {
				t.Errorf("%s fails", e.name)
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
			for _, sa := range []SA{e.pair.In, e.pair.Out} {
				if packets[sa.SPI] < 10 {
					t.Errorf("%s: %d packets by SPI %d, too few for 10,000 bytes", e.name, packets[sa.SPI], sa.SPI)
				}
			}
		}
	}
}

func testPings(t *testing.T, left, right *Peer) {
	var pairs []Pair
	var flows []Flow
	for _, e := range matrix()[:len(suite.All)] {
		pairs, flows = append(pairs, e.pair), append(flows, e.flow)
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
	e := matrix()[0]
	e.pair.ESN, e.pair.Out.Seq, e.pair.In.Seq = true, 1<<32-3, 1<<32-5
	configure(t, left, right, e.pair)
	if err := ping(left, e.flow, "-c", "10", "-i", "0.01"); err != nil {
		t.Error(err)
	}
	state, err := left.Run("ip", "xfrm", "state", "get", "src", e.pair.Local.String(), "dst", e.pair.Remote.String(), "proto", "esp", "spi", fmt.Sprint(e.pair.Out.SPI))
	if want := "oseq-hi 0x1, oseq 0x7"; err != nil || !strings.Contains(state, want) {
		t.Errorf("ten packets after %d, want %q in %q, %v", e.pair.Out.Seq, want, state, err)
	}
}

func testOtherKey(t *testing.T, left, right *Peer) {
	for _, e := range matrix()[:len(suite.All)] {
		other := e.pair.Mirror()
		other.In.Key, other.In.AuthKey = slices.Clone(other.In.Key), slices.Clone(other.In.AuthKey)
		for _, k := range [][]byte{other.In.Key, other.In.AuthKey} {
			if len(k) > 0 {
				k[0] ^= 1
			}
		}
		require.NoError(t, left.Configure(e.pair))
		refused(t, left, right, other, e.flow, "XfrmInStateProtoError")
	}
}

func testClear(t *testing.T, left, right *Peer) {
	e := matrix()[0]
	require.NoError(t, left.Configure())
	refused(t, left, right, e.pair.Mirror(), e.flow, "XfrmInTmplMismatch")
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
