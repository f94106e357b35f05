package gpu

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/race"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
)

// vrfWorld changes the VRFs of a network while packets pass.
type vrfWorld struct {
	*testing.T
	net  *testutil.Network
	w    *twins
	vrfs []uint16 // in use
	hops []fib.NextHopID
}

// TestKernelCodeAgreesOnVRFs: with ports in VRFs, in none and in one without a table, with and without reverse-path
// filters, while routes, VRFs and the ports in them change.
func TestKernelCodeAgreesOnVRFs(t *testing.T) { agreeOnVRFs(t, onHost, race.Fewer(1_000_000)) }

func agreeOnVRFs(t *testing.T, maker maker, want int) {
	if testing.Short() {
		want /= 10
	}
	net := testutil.NewNetwork()
	addReversePaths(t, net)
	w := newTwins(t, maker, net.FIB, make([]bool, 64))
	w.ingress = func() uint16 {
		port := reversePathPorts[w.rnd.IntN(len(reversePathPorts))]
		if w.rnd.IntN(8) == 0 {
			port |= uint16(batch.Own)
		}
		return port
	}
	v := &vrfWorld{t, net, w, nil, nil}
	for _, p := range net.Prefixes {
		lookup := net.IPv4.LookupPrefix
		if p.Addr().Is6() {
			lookup = net.IPv6.LookupPrefix
		}
		if _, id, ok := lookup(p.Addr()); ok {
			v.hops = append(v.hops, id)
		}
	}
	noTable := got(net.NewNextHop(fib.KindNoTable))(t)
	v.hops = append(v.hops, slices.Repeat([]fib.NextHopID{noTable}, 1+len(v.hops)/8)...)
	traffic := &testutil.Traffic{Rand: w.rnd, To: net.Prefixes}
	frames := make([][]byte, 4096)
	for i := range frames {
		frames[i] = traffic.Frame()
	}
	for w.packets() < want {
		for range w.rnd.IntN(4) {
			v.change()
		}
		net.Commit()
		w.run(func() []byte {
			f := frames[w.rnd.IntN(len(frames))]
			if w.rnd.IntN(8) == 0 {
				return testutil.Mutate(w.rnd, f)
			}
			return f
		})
	}
	checkSeen(t, w.seen, want/2000, batch.NoRoute, batch.NoTable, batch.Blackhole, batch.PortDown, batch.MTUExceeded, batch.ReversePath, batch.TTLExpired)
	t.Logf("%d packets, verdicts %v", w.packets(), w.seen)
}

func (v *vrfWorld) change() {
	rnd := v.w.rnd
	port := reversePathPorts[rnd.IntN(len(reversePathPorts))]
	if rnd.IntN(8) == 0 {
		v.net.SetRPF(port, modeOf(uint16(rnd.IntN(9))))
	}
	if len(v.vrfs) < 3 || len(v.vrfs) < 12 && rnd.IntN(10) == 0 {
		v.vrfs = append(v.vrfs, got(v.net.NewVRF())(v.T))
	}
	vrf := v.vrfs[rnd.IntN(len(v.vrfs))]
	switch rnd.IntN(12) {
	case 0: // the number is reused
		for _, p := range reversePathPorts {
			if v.net.PortVRF(p) == vrf {
				v.net.SetPortVRF(p, 0)
			}
		}
		v.net.FreeVRF(vrf)
		for i, other := range v.vrfs {
			if other == vrf {
				v.vrfs = append(v.vrfs[:i], v.vrfs[i+1:]...)
				break
			}
		}
	case 1, 2:
		v.net.SetPortVRF(port, vrf)
	case 3:
		v.net.SetPortVRF(port, 0)
	case 4: // all routes at once
		v4, v6 := map[netip.Prefix]fib.NextHopID{}, map[netip.Prefix]fib.NextHopID{}
		for _, p := range v.net.Prefixes {
			if rnd.IntN(2) == 0 {
				continue
			}
			if p.Addr().Is4() {
				v4[p] = v.hop()
			} else {
				v6[p] = v.hop()
			}
		}
		require.NoError(v.T, errors.Join(v.net.IPv4.VRF(int(vrf)).Load(maps.All(v4)), v.net.IPv6.VRF(int(vrf)).Load(maps.All(v6))))
	case 5:
		p := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if rnd.IntN(2) == 0 {
			p = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		v.set(vrf, p)
	default:
		v.set(vrf, v.net.Prefixes[rnd.IntN(len(v.net.Prefixes))])
	}
}

func (v *vrfWorld) hop() fib.NextHopID { return v.hops[v.w.rnd.IntN(len(v.hops))] }

// set inserts, replaces or deletes a route.
func (v *vrfWorld) set(vrf uint16, p netip.Prefix) {
	table := v.net.IPv4.VRF(int(vrf))
	if p.Addr().Is6() {
		table = v.net.IPv6.VRF(int(vrf))
	}
	if v.w.rnd.IntN(3) == 0 {
		table.Delete(p)
		return
	}
	require.NoError(v.T, table.Insert(p, v.hop()))
}

// TestKernelCodeNeverMixesVRFs: a port moves between VRFs, whose numbers are reused by others, while packets pass. They
// take the routes of a VRF in which the port is at the time, never those of another.
func TestKernelCodeNeverMixesVRFs(t *testing.T) { neverMixVRFs(t, onHost) }

func neverMixVRFs(t *testing.T, maker maker) {
	net := testutil.NewNetwork()
	o := maker(t, net.FIB, net.PartialChecksums)
	addr := netip.MustParsePrefix("10.1.0.0/16")
	forbidden, ways := got(net.NewNextHop(fib.KindProhibit))(t), []fib.NextHopID{got(net.NewNextHop(fib.KindBlackhole))(t), got(net.NewNextHop(fib.KindUnreachable))(t)}
	newVRF := func(hop fib.NextHopID) uint16 {
		vrf := got(net.NewVRF())(t)
		require.NoError(t, net.IPv4.VRF(int(vrf)).Insert(addr, hop))
		return vrf
	}
	require.NoError(t, net.IPv4.Insert(addr, forbidden))
	at := newVRF(ways[0])
	net.SetPortVRF(1, at)
	net.Commit()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Microsecond):
			}
			next := newVRF(ways[i%2])
			net.SetPortVRF(1, next)
			net.FreeVRF(at)
			reused := newVRF(forbidden) // no port is in it
			at = next
			net.Commit()
			net.FreeVRF(reused)
		}
	}()
	f := testutil.UDP4("192.0.2.1", "10.1.0.9", 1, 2, make([]byte, 40)...)
	seen := map[batch.Verdict]int{}
	for range 2000 {
		const n, apart = 256, 256
		for i := range n {
			o.in[i] = batch.Frame{Addr: uint32(2 + i*apart), Len: uint16(len(f)), Origin: 1}
			copy(o.umem[o.in[i].Addr:], f)
		}
		o.submit(n)
		for _, r := range o.out[:n] {
			seen[r.Verdict]++
		}
	}
	close(stop)
	<-stopped
	if len(seen) != 2 || seen[batch.Drop(batch.Blackhole)] == 0 || seen[batch.Drop(batch.Unreachable)] == 0 {
		t.Errorf("verdicts %v", seen)
	}
}
