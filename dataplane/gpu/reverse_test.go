package gpu

import (
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/race"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet"
)

// reversePathPorts have all reverse-path modes. A warp caches the modes of the first ports alone.
var reversePathPorts = []uint16{0, 1, 2, 3, 4, 5, 6, 7, 8, 33, 34, 35, 36, 37, 38, 39, 40, 41}

// modeOf returns a different mode for nine consecutive ports.
func modeOf(port uint16) fib.RPF {
	return fib.RPF{IPv4: fib.RPFMode(port % 9 % 3), IPv6: fib.RPFMode(port % 9 / 3)}
}

// addReversePaths adds routes to sources: by several ports, by ECMP groups in which a port has one or many
// buckets, and by nested prefixes.
func addReversePaths(t *testing.T, net *testutil.Network) {
	t.Helper()
	path := func(port uint16, weight uint32) fib.Path {
		net.SetPort(port, 0x020000000031, 1500)
		adj := got(net.NewAdjacency(port))(t)
		net.SetAdjacency(adj, port, 0x0200000000cc)
		return fib.Path{Adjacency: adj, Weight: weight}
	}
	route := func(paths []fib.Path, prefixes ...string) {
		id := got(net.NewNextHop(fib.KindForward, paths...))(t)
		net.Route(id, prefixes...)
	}
	few, many, one := path(5, 1), path(7, 255), path(35, 1)
	route([]fib.Path{few}, "10.20.0.0/16", "fd14::/64", "10.21.1.128/25", "fd15:0:0:0:8000::/65", "fd02::/20")
	route([]fib.Path{one}, "10.21.0.0/16", "fd15::/64", "10.20.2.3/32", "fd14::7/128", "10.1.4.0/23")
	route([]fib.Path{few, many}, "10.22.0.0/16", "fd16::/64", "192.0.2.0/27")
	route([]fib.Path{many, one}, "10.23.0.0/16", "fd17::/64", "2001:db8::/125")
}

// returned returns f with the destination of other as its source.
func returned(f, other []byte) []byte {
	const ipv4, dst4, dst6 = 0x45, packet.EthernetLen + 16, packet.EthernetLen + 24
	if f[packet.EthernetLen] == ipv4 {
		return testutil.Edit(f, 12, other[dst4:dst4+4]...)
	}
	return testutil.Edit(f, 8, other[dst6:dst6+16]...)
}

func TestKernelCodeAgreesOnSources(t *testing.T) { agreeOnSources(t, onHost, race.Fewer(1_000_000)) }

func agreeOnSources(t *testing.T, maker maker, want int) {
	if testing.Short() {
		want /= 10
	}
	net := testutil.NewNetwork()
	addReversePaths(t, net)
	w := newTwins(t, maker, net.FIB, make([]bool, 64))
	w.ingress = func() uint16 {
		port := reversePathPorts[w.rnd.IntN(len(reversePathPorts))]
		if w.rnd.IntN(8) == 0 {
			port |= uint16([]batch.Mark{batch.Own, batch.PolicyDone, batch.InboundChecked, batch.PolicyDone | batch.InboundChecked}[w.rnd.IntN(4)])
		}
		return port
	}
	traffic := &testutil.Traffic{Rand: w.rnd, To: net.Prefixes}
	frames := map[bool][][]byte{} // IPv4, IPv6
	for len(frames[true]) < 2048 || len(frames[false]) < 2048 {
		f := traffic.Frame()
		frames[f[12] == 8] = append(frames[f[12] == 8], f)
	}
	for _, p := range reversePathPorts {
		net.SetRPF(p, modeOf(p))
	}
	for round := 0; w.packets() < want; round++ {
		if round%8 == 7 { // a port is reconfigured
			p := reversePathPorts[w.rnd.IntN(len(reversePathPorts))]
			net.SetRPF(p, modeOf(uint16(w.rnd.IntN(9))))
			net.Commit()
		}
		w.run(func() []byte {
			of := frames[w.rnd.IntN(2) == 0]
			f := of[w.rnd.IntN(len(of))]
			if w.rnd.IntN(8) != 0 {
				f = returned(f, of[w.rnd.IntN(len(of))])
			}
			switch w.rnd.IntN(8) {
			case 0:
				return testutil.Mutate(w.rnd, f)
			case 1: // cut near the end of headers
				return f[:min(len(f), 14+w.rnd.IntN(44))]
			case 2: // a different header, with a correct checksum
				return testutil.Edit(f, w.rnd.IntN(min(len(f)-packet.EthernetLen, 48)), byte(w.rnd.Uint32()))
			}
			return f
		})
	}
	checkSeen(t, w.seen, want/2000, batch.TooShort, batch.BadChecksum, batch.TTLExpired, batch.SourceMartian, batch.DestMartian, batch.FragmentOverlap,
		batch.ExtensionHeaders, batch.NoRoute, batch.PortDown, batch.MTUExceeded)
	if n := w.seen[batch.Drop(batch.ReversePath)]; n < want/10 || n > want/2 {
		t.Errorf("of %d packets, %d were refused for their source", w.packets(), n)
	}
	t.Logf("%d packets, verdicts %v", w.packets(), w.seen)
}

// TestGatewayCodeAgreesOnSources: the reverse path of the outer packet is checked, and of the inner
// packet not.
func TestGatewayCodeAgreesOnSources(t *testing.T) { agreeOnSecuredSources(t, securedOnHost(3900)) }

func agreeOnSecuredSources(t *testing.T, maker securedMaker) {
	w := newSecuredTwins(t, maker, 4)
	w.net.SetRPF(1, fib.RPF{IPv4: fib.RPFLoose, IPv6: fib.RPFStrict})
	w.net.SetRPF(2, fib.RPF{IPv4: fib.RPFStrict, IPv6: fib.RPFLoose})
	w.net.SetRPF(3, fib.RPF{IPv4: fib.RPFLoose, IPv6: fib.RPFLoose})
	w.net.Commit()
	packets, strangers := 2000, 0
	for n := 0; n < packets; n += w.chunks[0].N {
		w.run(w.next)
		for i, f := range w.chunks[1].In[:w.chunks[1].N] { // out of tunnels, without a route back
			if r := w.chunks[1].Out[i]; f.Origin.Port() != 0 && r.Verdict.Action() == batch.ActionForward && w.gpu.umem[r.Addr()+packet.EthernetLen+12] == 192 {
				strangers++
			}
		}
	}
	if n := w.seen[batch.Drop(batch.ReversePath)]; n < packets/10 || strangers < packets/100 {
		t.Errorf("of %d packets, %d are refused for their source, and %d come out of tunnels from where no route leads", packets, n, strangers)
	}
	t.Logf("%d came out of tunnels, verdicts %v", strangers, w.seen)
}

// TestKernelCodeFollowsReversePathModes: while the mode of a port changes, packets with a reverse path
// are forwarded, others forwarded or dropped. Afterwards the last mode applies.
func TestKernelCodeFollowsReversePathModes(t *testing.T) { followSources(t, onHost) }

func followSources(t *testing.T, maker maker) {
	net := testutil.NewNetwork()
	o := maker(t, net.FIB, net.PartialChecksums)
	frames := [][]byte{
		testutil.UDP4("10.1.0.1", "10.1.0.9", 1, 2, make([]byte, 40)...), testutil.UDP4("192.0.2.1", "10.1.0.9", 1, 2, make([]byte, 40)...),
		testutil.UDP6("fd01::1", "fd01::9", 1, 2, make([]byte, 40)...), testutil.UDP6("2001:db8::1", "fd01::9", 1, 2, make([]byte, 40)...),
	}
	refused := 0 // minimum of packets
	run := func() (of int) {
		const n, apart = 256, 256
		for i := range n {
			f := frames[i%len(frames)]
			o.in[i] = batch.Frame{Addr: uint32(2 + i*apart), Len: uint16(len(f)), Origin: 1}
			copy(o.umem[o.in[i].Addr:], f)
		}
		o.submit(n)
		refused = 0
		for i, r := range o.out[:n] {
			stranger := i%2 == 1
			switch {
			case stranger && r.Verdict == batch.Drop(batch.ReversePath):
				refused++
			case r.Verdict != batch.Forward(1):
				t.Fatalf("%v of % x", r.Verdict, frames[i%len(frames)])
			}
		}
		return n / 2
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Microsecond):
				net.SetRPF(1, modeOf(uint16(i%9)))
				net.Commit()
			}
		}
	}()
	some, none, all := 0, 0, 0
	for range 2000 {
		switch n := run(); refused {
		case 0:
			none++
		case n:
			all++
		default:
			some++
		}
	}
	close(stop)
	<-stopped
	if none == 0 || some == 0 || all == 0 {
		t.Errorf("of 2000 chunks, %d had all packets refused that may be, %d some and %d none", all, some, none)
	}
	for _, s := range []fib.RPF{{IPv4: fib.RPFStrict, IPv6: fib.RPFStrict}, {}, {IPv6: fib.RPFLoose}} {
		net.SetRPF(1, s)
		net.Commit()
		want := 0
		if n := run(); s.IPv4 != fib.RPFOff {
			want = n
		} else if s.IPv6 != fib.RPFOff {
			want = n / 2
		}
		if refused != want {
			t.Errorf("%+v: %d refused, want %d", s, refused, want)
		}
	}
}
