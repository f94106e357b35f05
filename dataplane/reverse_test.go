package dataplane_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/testutil"
)

// Dropped packets cause no ICMP errors, and the other IP version is not affected.
func TestReversePathFiltering(t *testing.T) {
	const anything, loose, strict = fib.RPFOff, fib.RPFLoose, fib.RPFStrict
	sources := []struct {
		v4, v6 string
		most   fib.RPFMode // that lets it pass
	}{
		{"192.0.2.1", "2001:db8::1", strict},         // by this port
		{"198.51.100.1", "2001:db8:1::1", loose},     // by the other
		{"203.0.113.1", "2001:db8:2::1", strict},     // by both
		{"192.0.0.9", "2001:db8:3::1", loose},        // by an interface that is not a port
		{"100.64.0.1", "2001:db8:4::1", anything},    // no route
		{"100.65.0.1", "2001:db8:5::1", anything},    // to this host
		{"172.16.0.1", "2001:db8:ffff::1", anything}, // no route at all
	}
	for _, ask := range []fib.RPF{{}, {IPv4: loose}, {IPv4: strict}, {IPv6: loose}, {IPv6: strict}, {IPv4: strict, IPv6: loose}} {
		r := newRig(t, 7) // bursts of several sizes
		both := []fib.Path{{Adjacency: r.adj[0], Weight: 1}, {Adjacency: r.adj[1], Weight: 9}}
		r.routeTo(r.hops[0], "192.0.2.0/24", "2001:db8::/64")
		r.routeTo(r.hops[1], "198.51.100.0/24", "2001:db8:1::/64")
		r.routeTo(r.hop(fib.KindForward, both...), "203.0.113.0/24", "2001:db8:2::/64")
		r.routeTo(r.hop(fib.KindNoPort), "192.0.0.0/24", "2001:db8:3::/64")
		r.routeTo(r.hop(fib.KindBlackhole), "100.64.0.0/16", "2001:db8:4::/64")
		r.routeTo(r.hop(fib.KindLocal), "100.65.0.0/16", "2001:db8:5::/64")
		r.addresses = dataplane.Addresses{IPv4: netip.MustParseAddr("10.0.0.1"), IPv6: netip.MustParseAddr("fd00::1")}
		var frames [][]byte
		var want []string
		refused, tooShort := uint64(0), uint64(0)
		for range 20 {
			for _, s := range sources {
				frames = append(frames, testutil.UDP4(s.v4, "10.1.0.1", 1, 2, make([]byte, 26)...), testutil.UDP6(s.v6, "fd01::1", 1, 2))
				for _, of := range []struct {
					src   string
					asked fib.RPFMode
				}{{s.v4, ask.IPv4}, {s.v6, ask.IPv6}} {
					if of.asked > s.most {
						refused++
					} else {
						want = append(want, of.src)
					}
				}
				if ask.IPv4 > s.most { // an expired packet would cause an ICMP error
					frames = append(frames, testutil.Edit(frames[len(frames)-2], 8, 1))
					refused++
				}
			}
			frames = append(frames, frames[0][:14+19], frames[1][:14+39]) // no source to look at
			tooShort += 2
		}
		r.queues[0].Play(frames, len(frames))
		r.configure(func() { r.fib.SetRPF(0, ask) })
		r.wait("all packets", func(s *dataplane.Stats) bool {
			return s.Ports[1].TxPackets+s.Ports[0].Dropped() == uint64(len(frames))
		})
		s := r.stop()
		if got := s.Ports[0].Drops[batch.ReversePath]; got != refused || s.Ports[0].Drops[batch.TooShort] != tooShort || s.Ports[0].Dropped() != refused+tooShort || s.Originated != 0 {
			t.Errorf("%v: %d refused, %d made, want %d and none; drops %v", ask, got, s.Originated, refused, s.Ports[0].Drops)
		}
		var got []string
		for _, f := range r.out[1] {
			if f[14]>>4 == 4 {
				got = append(got, netip.AddrFrom4([4]byte(f[26:])).String())
			} else {
				got = append(got, netip.AddrFrom16([16]byte(f[22:])).String())
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v: %d packets pass, want %d; in the first round, from %v, want %v", ask, len(got), len(want), got[:min(len(got), len(want)/20)], want[:len(want)/20])
		}
	}
}

// A pending packet is dropped once when its port enables the reverse path check.
func TestReversePathAppliesToPendingPackets(t *testing.T) {
	r := newRig(t, 1024)
	r.fib.SetAdjacency(r.adj[1], 1, 0)
	r.queues[0].Play(numbered(20, "10.1.0.1"), 20)
	r.start()
	r.wait("20 waiting packets", func(s *dataplane.Stats) bool { return s.Waiting == 20 })
	r.fib.SetRPF(0, fib.RPF{IPv4: fib.RPFLoose})
	r.fib.Commit()
	r.wait("20 drops", func(s *dataplane.Stats) bool { return s.Ports[0].Drops[batch.ReversePath] == 20 })
	if s := r.stop(); s.Waiting != 0 || s.Ports[0].Dropped() != 20 {
		t.Errorf("%d waiting, drops %v", s.Waiting, s.Ports[0].Drops)
	}
}

func TestReversePathChangesUnderLoad(t *testing.T) {
	r := newRig(t, 64)
	r.queues[0].Play(numbered(500, "10.1.0.1"), -1) // from where no route leads
	r.start()
	r.wait("packets", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets > 1000 })
	r.fib.SetRPF(0, fib.RPF{IPv4: fib.RPFLoose})
	r.wait("drops", func(s *dataplane.Stats) bool { return s.Ports[0].Drops[batch.ReversePath] > 1000 })
	r.fib.SetRPF(0, fib.RPF{})
	before := r.router.Stats().Ports[1].TxPackets
	r.wait("packets again", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets > before+1000 })
	r.queues[0].Pause()
	r.stop()
}
