package dataplane_test

import (
	"net/netip"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet/icmp"
)

// Linux does not get packets of a VRF for interfaces that are not ports, though it forwards those of table main: it would look
// them up there.
func TestPacketsInVRFsDoNotExitByLinux(t *testing.T) {
	r, h := newRig(t, 64), &host{}
	hop := r.hop(fib.KindNoPort)
	f := r.config.FIB
	f.SetExits(hop, fib.ExitIPv4|fib.ExitIPv6)
	r.routeTo(hop, "10.3.0.0/16", "fd03::/64")
	vrf, err := f.NewVRF()
	require.NoError(t, err)
	require.NoError(t, f.IPv4.VRF(int(vrf)).Insert(netip.MustParsePrefix("10.3.0.0/16"), hop))
	require.NoError(t, f.IPv6.VRF(int(vrf)).Insert(netip.MustParsePrefix("fd03::/64"), hop))
	f.SetPortVRF(0, vrf)
	r.config.Workers[0].Exit = h
	r.queues[0].Play([][]byte{testutil.UDP4("192.0.2.1", "10.3.0.9", 1, 2), testutil.UDP6("2001:db8::1", "fd03::9", 1, 2)}, 2)
	r.startWithReturnRoute()
	r.wait("two drops", func(s *dataplane.Stats) bool { return s.Ports[0].Dropped() == 2 })
	if s := r.stop(); len(h.delivered) != 0 || s.Ports[0].Drops[batch.NoPort] != 2 {
		t.Errorf("%d packets delivered, drops %v", len(h.delivered), s.Ports[0].Drops)
	}
}

// Hosts with the same address in two VRFs each get the ICMP errors of a source.
func TestICMPErrorsAreLimitedPerVRF(t *testing.T) {
	const burst = 5
	r := newRig(t, 64)
	r.config.Limits = icmp.Limits{Global: icmp.Rate{PerSecond: 1, Burst: 1000}, Source: icmp.Rate{PerSecond: 1, Burst: burst}}
	vrf, err := r.fib.NewVRF()
	require.NoError(t, err)
	require.NoError(t, r.fib.IPv4.VRF(int(vrf)).Insert(netip.MustParsePrefix("192.0.2.0/24"), r.hops[1]))
	r.fib.SetPortVRF(1, vrf)
	for _, q := range r.queues {
		q.Play(numbered(200, "172.16.0.1"), 200)
	}
	r.startWithReturnRoute()
	r.wait("all packets", func(s *dataplane.Stats) bool { return s.Ports[0].Dropped() == 200 && s.Ports[1].Dropped() == 200 })
	r.stop()
	for port, frames := range r.out { // one more a second may come while that takes
		if n := len(frames); n < burst || n > burst+30 {
			t.Errorf("%d errors to the host in port %d, want %d", n, port, burst)
		}
	}
}
