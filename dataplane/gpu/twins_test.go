package gpu

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/race"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/routes"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

const twinChunk, twinBytes = 1024, 1 << 18

// other is the kernels' code that is compared with the CPU engine, with memory for a chunk. submit
// processes the first n frames of in.
type other struct {
	umem   []byte
	in     []batch.Frame
	out    []batch.Result
	submit func(n int)
	apart  int // one in this many frames is unaligned; 0: one in 4
}

// maker returns one that follows a base.
type maker func(t *testing.T, base *fib.FIB, partialChecksums []bool) other

// onHost is the kernels' code, compiled for the host.
func onHost(t *testing.T, base *fib.FIB, partialChecksums []bool) other {
	s := newShim(t, base, partialChecksums, twinChunk, twinBytes)
	return other{s.umem, s.in, s.out, s.submit, 0}
}

// twins are the CPU engine and the kernels' code, each with its own frames.
type twins struct {
	t      *testing.T
	rnd    *rand.Rand
	engine *cpu.Engine
	umem   []byte // of the CPU engine
	chunk  *batch.Chunk
	other  other
	frames [][]byte // as received
	// ingress returns the port and the flags of the next frame. Half of the chunks have no frame from
	// port 0, whose partial L4 checksums prevent inline completions.
	ingress func() uint16
	quiet   bool

	seen      map[batch.Verdict]int // forward and hold verdicts, as of port 0
	completed int                   // L4 checksums
	tagged    int                   // packets
}

func newTwins(t *testing.T, maker maker, base *fib.FIB, partialChecksums []bool) *twins {
	w := &twins{
		t: t, rnd: rand.New(rand.NewPCG(4, 2)), umem: make([]byte, twinBytes), chunk: batch.NewChunks(1, twinChunk)[0],
		other: maker(t, base, partialChecksums), seen: map[batch.Verdict]int{},
	}
	w.engine = cpu.New(base, w.umem, partialChecksums)
	w.ingress = func() uint16 {
		if w.quiet {
			return uint16(1 + w.rnd.IntN(3))
		}
		return uint16(w.rnd.IntN(4) * w.rnd.IntN(2)) // mostly 0
	}
	return w
}

// run runs a chunk of frames from next through both engines and compares them.
func (w *twins) run(next func() []byte) {
	w.t.Helper()
	w.fill(next)
	c := w.chunk
	for i := range c.Out[:c.N] {
		c.Out[i], w.other.out[i] = batch.Result{Verdict: 0xffff}, batch.Result{Verdict: 0xffff}
	}
	copy(w.other.umem, w.umem)
	copy(w.other.in, c.In[:c.N])
	w.engine.Submit(c)
	w.other.submit(c.N)
	for i, want := range c.Out[:c.N] {
		f := c.In[i]
		if want.Verdict.Action() == batch.ActionForward && want.Addr() != f.Addr { // with a VLAN tag
			f.Addr, f.Len = want.Addr(), f.Len+fib.TagLen
			w.tagged++
			copy(w.other.umem[f.Addr-umem.Headroom:f.Addr], w.umem[f.Addr-umem.Headroom:]) // kernels may write there
		}
		got, ours := w.other.umem[f.Addr:][:f.Len], w.umem[f.Addr:][:f.Len]
		if w.other.out[i] != want || !bytes.Equal(got, ours) {
			w.t.Fatalf("frame at %#x from port %d\n  % x\nkernels' code: %v, %+v\n  % x\nCPU engine:    %v, %+v\n  % x",
				f.Addr, f.Origin.Port(), w.frames[i], w.other.out[i].Verdict, w.other.out[i], got, want.Verdict, want, ours)
		}
		w.count(i, want)
	}
	if !bytes.Equal(w.umem, w.other.umem) {
		w.t.Fatal("memory between frames differs")
	}
}

// fill writes frames to the CPU engine's memory, mostly with the IP header at a multiple of 16 as in
// workers' memory, or up to two VLAN tags behind it, the last one at the end of memory.
func (w *twins) fill(next func() []byte) {
	end, n := 2, 0
	w.frames, w.quiet = w.frames[:0], !w.quiet
	for last := false; n < twinChunk && !last; n++ {
		f := next()
		size := max(len(f), 64) // bytes of memory that may be read
		addr := (end+umem.Headroom+fib.TagLen+13)&^15 + 2
		if w.rnd.IntN(cmp.Or(w.other.apart, 4)) == 0 {
			addr += w.rnd.IntN(16)
		} else if w.rnd.IntN(2) == 0 {
			addr += fib.TagLen * (1 + w.rnd.IntN(fib.MaxTags))
		}
		if addr%umem.FrameSize < umem.Headroom+fib.TagLen { // no room for a tag: the shadow's copies have some (TestTagNeedsRoom)
			addr += 16
		}
		if last = addr+size+4096 > len(w.umem) || n == twinChunk-1; last {
			addr = len(w.umem) - size
		}
		copy(w.umem[addr:], f)
		w.chunk.In[n] = batch.Frame{Addr: uint32(addr), Len: uint16(len(f)), Origin: batch.Origin(w.ingress())}
		w.frames = append(w.frames, f)
		end = addr + len(f)
	}
	w.chunk.N = n
}

func (w *twins) count(i int, r batch.Result) {
	v, f := r.Verdict, w.chunk.In[i]
	if v.Action() == batch.ActionForward {
		v = batch.Forward(0)
		const l4 = packet.EthernetLen + packet.IPv4Len // or behind it
		if !bytes.Equal(w.umem[f.Addr:][:f.Len][l4:], w.frames[i][l4:]) {
			w.completed++
		}
	}
	w.seen[v]++
}

func (w *twins) packets() (n int) {
	for _, k := range w.seen {
		n += k
	}
	return n
}

func TestKernelCodeAgreesWithTheCPUEngine(t *testing.T) {
	agreeOnTraffic(t, onHost, race.Fewer(2_000_000))
}

// agreeOnTraffic compares a number of packets, at least 200,000; a tenth in short mode.
func agreeOnTraffic(t *testing.T, maker maker, want int) {
	if testing.Short() {
		want = max(want/10, 200_000)
	}
	net := testutil.NewNetwork()
	vlans := addVLANs(t, net)
	w := newTwins(t, maker, net.FIB, append(net.PartialChecksums, make([]bool, 60)...))
	traffic := &testutil.Traffic{Rand: w.rnd, To: append(slices.Repeat(net.Prefixes[:2], 8), net.Prefixes...)}
	frames := make([][]byte, 4096)
	for i := range frames {
		frames[i] = traffic.Frame()
	}
	defaulted := false
	for w.packets() < want {
		for range 64 {
			frames[w.rnd.IntN(len(frames))] = traffic.Frame()
		}
		if !defaulted && w.packets() > want/2 { // every address has a route from here on
			net.Route(vlans[0], "0.0.0.0/0", "::/0")
			defaulted = true
		}
		w.run(func() []byte {
			f := frames[w.rnd.IntN(len(frames))]
			switch w.rnd.IntN(8) {
			case 0:
				return testutil.Mutate(w.rnd, f)
			case 1: // a different header, with a correct checksum
				return testutil.Edit(f, w.rnd.IntN(min(len(f)-packet.EthernetLen, 48)), byte(w.rnd.Uint32()))
			case 2: // cut
				return f[:w.rnd.IntN(min(len(f), 200))]
			}
			return f
		})
	}
	var reasons []batch.Reason
	for r := batch.TooShort; r <= batch.MTUExceeded; r++ {
		reasons = append(reasons, r)
	}
	checkSeen(t, w.seen, want/200_000, reasons...)
	if w.completed < want/100 {
		t.Errorf("of %d packets, only %d had a checksum completed", w.packets(), w.completed)
	}
	if w.tagged < want/20 {
		t.Errorf("of %d packets, only %d were tagged", w.packets(), w.tagged)
	}
	t.Logf("%d packets, %d checksums completed, %d tagged, verdicts %v", w.packets(), w.completed, w.tagged, w.seen)
}

// addVLANs adds VLANs of port 1, one of them below HOT_PORTS, and returns their next hops. 10.16/16 to 10.19/16 and
// fd10::/64 to fd13::/64 lead to a VLAN, to one of 802.1ad, to both and the port, and to a VLAN in a VLAN.
func addVLANs(t *testing.T, net *testutil.Network) (hops []fib.NextHopID) {
	t.Helper()
	net.VLANs.SetPhysical(4)
	paths := []fib.Path{{Adjacency: 1, Weight: 1}}
	for _, v := range []struct{ number, parent, kind, vid uint16 }{{4, 1, 0x8100, 100}, {40, 1, 0x88a8, 0xfff}, {41, 40, 0x8100, 7}} {
		for n := uint16(0); n != v.number; n = got(net.VLANs.Take())(t) {
		}
		tag, _ := fib.MakeTag(v.kind, v.vid)
		require.NoError(t, net.VLANs.Add(v.number, v.parent, tag))
		net.SetPort(v.number, fib.MAC(0x020000000100+uint64(v.number)), 1400)
		adjacency := got(net.NewAdjacency(v.number))(t)
		net.SetAdjacency(adjacency, v.number, 0x0200000001aa)
		paths = append(paths, fib.Path{Adjacency: adjacency, Weight: 1})
	}
	for i, hop := range [][]fib.Path{paths[1:2], paths[2:3], paths[:3], paths[3:]} {
		id := got(net.NewNextHop(fib.KindForward, hop...))(t)
		net.Route(id, fmt.Sprintf("10.%d.0.0/16", 16+i), fmt.Sprintf("fd%02x::/64", 16+i))
		hops = append(hops, id)
	}
	return hops
}

// TestTagNeedsRoom: a frame without room for a VLAN tag in front of it is dropped, and left as it was, whatever its length.
func TestTagNeedsRoom(t *testing.T) {
	testTagNeedsRoom(t, testutil.UDP4("192.0.2.1", "10.16.0.1", 1, 2), func(f batch.Frame) batch.Result {
		return batch.ForwardTo(4, f.Addr-fib.TagLen, packet.EthernetLen+fib.TagLen+28)
	})
	testTagNeedsRoom(t, testutil.UDP4("192.0.2.1", "10.16.0.1", 1, 2, make([]byte, 1400)...), func(batch.Frame) batch.Result { return batch.DropTooBig(1400) })
}

func testTagNeedsRoom(t *testing.T, frame []byte, want func(f batch.Frame) batch.Result) {
	net := testutil.NewNetwork()
	addVLANs(t, net)
	w := newTwins(t, onHost, net.FIB, make([]bool, 64))
	c := w.chunk
	for i := range uint32(16) { // offsets in a frame's memory
		addr := (i+1)*umem.FrameSize + i
		copy(w.umem[addr:], frame)
		c.In[i] = batch.Frame{Addr: addr, Len: uint16(len(frame)), Origin: batch.From(1)}
	}
	c.N = 16
	copy(w.other.umem, w.umem)
	copy(w.other.in, c.In[:c.N])
	w.engine.Submit(c)
	w.other.submit(c.N)
	for i, r := range c.Out[:c.N] {
		f, room := c.In[i], i >= umem.Headroom+fib.TagLen
		if want := want(f); room && r.Verdict != want.Verdict || room && r.Len() != want.Len() || room == (r.Verdict == batch.Drop(batch.PortDown)) || w.other.out[i] != r {
			t.Errorf("offset %d: CPU engine %+v, kernels' code %+v", i, r, w.other.out[i])
		}
		if !room && (!bytes.Equal(w.umem[f.Addr:][:f.Len], frame) || !bytes.Equal(w.other.umem[f.Addr:][:f.Len], frame)) {
			t.Errorf("offset %d: the frame has changed", i)
		}
	}
}

// checkSeen requires each of these verdicts at least a number of times: forward, hold, and drops for
// reasons.
func checkSeen(t *testing.T, seen map[batch.Verdict]int, least int, reasons ...batch.Reason) {
	t.Helper()
	must := []batch.Verdict{batch.Forward(0), batch.Hold}
	for _, r := range reasons {
		must = append(must, batch.Drop(r))
	}
	for _, v := range must {
		if seen[v] < least {
			t.Errorf("only %d packets had the verdict %v: %v", seen[v], v, seen)
		}
	}
}

// internetBase returns a base with the internet's table over 16 ports.
func internetBase(t *testing.T, v4, v6 *routes.Set) *fib.FIB {
	t.Helper()
	base := fib.New(7)
	for i := range routes.NextHops {
		port := uint16(i % 16)
		base.SetPort(port, fib.MAC(0x020000000000+uint64(port)), 1500)
		adj := got(base.NewAdjacency(port))(t)
		base.SetAdjacency(adj, port, fib.MAC(0x020000010000+uint64(i)))
		if id, err := base.NewNextHop(fib.KindForward, fib.Path{Adjacency: adj, Weight: 1}); err != nil || int(id) != i+1 {
			t.Fatalf("next hop %d is number %d: %v", i+1, id, err)
		}
	}
	require.NoError(t, errors.Join(base.IPv4.Load(v4.All()), base.IPv6.Load(v6.All())))
	return base
}

// destinations returns n addresses: most below routes, some random, some at the edges of prefixes.
func destinations(t *testing.T, set *routes.Set, n int) (all []netip.Addr) {
	t.Helper()
	covered := got(set.Destinations("table", 3))(t)
	uniform := got(set.Destinations("uniform", 3))(t)
	for share, from := range []iter.Seq[netip.Addr]{covered, uniform, set.Edges()} {
		for a := range from {
			if all = append(all, a); len(all) >= n*(share+2)/4 {
				break
			}
		}
	}
	return all
}

func TestKernelCodeAgreesOnTheInternetsTable(t *testing.T) { agreeOnTheInternet(t, onHost) }

func agreeOnTheInternet(t *testing.T, maker maker) {
	want := 500_000
	if testing.Short() {
		want = 50_000
	}
	v4 := got(routes.Real(routes.IPv4, 1))(t)
	v6 := got(routes.Real(routes.IPv6, 1))(t)
	w := newTwins(t, maker, internetBase(t, v4, v6), make([]bool, 16))
	dst := append(destinations(t, v4, want/2), destinations(t, v6, want/2)...)
	w.rnd.Shuffle(len(dst), func(i, j int) { dst[i], dst[j] = dst[j], dst[i] })
	frame4 := testutil.UDP4("192.0.2.1", "192.0.2.2", 1000, 53, make([]byte, 18)...)
	frame6 := testutil.UDP6("2001:db8::1", "2001:db8::2", 1000, 53, make([]byte, 18)...)
	for at := 0; at < len(dst); {
		w.run(func() []byte {
			a := dst[at%len(dst)]
			at++
			if a.Is4() {
				return testutil.Edit(frame4, 16, a.AsSlice()...)
			}
			return testutil.Edit(frame6, 24, a.AsSlice()...)
		})
	}
	if n := w.seen[batch.Forward(0)]; n < want/2 {
		t.Errorf("only %d of %d packets had a route", n, w.packets())
	}
	t.Logf("%d packets, verdicts %v", w.packets(), w.seen)
}
