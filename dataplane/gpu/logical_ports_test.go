package gpu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/memport"
	"github.com/warproute/warproute/umem"
)

// comparedEngine is the CPU engine of a worker, whose chunks the kernels' code processes, too.
type comparedEngine struct {
	*cpu.Engine
	t       *testing.T
	umem    []byte
	shim    *shim
	arrived [8]int // by port
	tagged  int    // by the engine
	seen    map[batch.Verdict]int
}

func (e *comparedEngine) Submit(c *batch.Chunk) {
	frames := make([][]byte, c.N)
	for i, f := range c.In[:c.N] {
		frames[i] = bytes.Clone(e.umem[f.Addr:][:f.Len])
		copy(e.shim.umem[f.Addr:], frames[i])
		e.arrived[f.Origin.Port()]++
	}
	copy(e.shim.in, c.In[:c.N])
	e.Engine.Submit(c)
	e.shim.submit(c.N)
	for i, want := range c.Out[:c.N] {
		f := c.In[i]
		if want.Verdict.Action() == batch.ActionForward && want.Addr() < f.Addr { // with a VLAN tag
			f.Addr, f.Len = want.Addr(), f.Len+fib.TagLen
			e.tagged++
		}
		got, ours := e.shim.umem[f.Addr:][:f.Len], e.umem[f.Addr:][:f.Len]
		if (e.shim.out[i] != want || !bytes.Equal(got, ours)) && !e.t.Failed() {
			e.t.Errorf("frame from port %d\n  % x\nkernels' code: %+v\n  % x\nCPU engine:    %+v\n  % x", f.Origin.Port(), frames[i], e.shim.out[i], got, want, ours)
		}
		e.seen[want.Verdict]++
	}
}

// TestKernelCodeAgreesOnLogicalPorts: on random packets that a worker receives on VLANs with one and two tags, on a
// bond, and in VRFs with routes that lead to ports of others.
func TestKernelCodeAgreesOnLogicalPorts(t *testing.T) {
	const ports, logical, maxPackets = 3, 8, 256
	rnd := rand.New(rand.NewPCG(8021, 4))
	base, ends := fib.New(1), [ports][][]byte{}
	mem, err := umem.New((ports + 1) * 2048)
	require.NoError(t, err)
	defer mem.Close()

	// Port 3 is the bond of 1 and 2; 4 and 5 are VLANs of 0 and of the bond, 6 is a service VLAN of 0, and 7 a VLAN in it.
	base.VLANs.SetPhysical(ports)
	bond := got(base.VLANs.Take())(t)
	base.Bonds.Add(bond)
	base.Bonds.SetMaster(1, bond)
	base.Bonds.SetMaster(2, bond)
	base.Bonds.SetMembers(bond, []fib.Path{{Adjacency: 1, Weight: 1}, {Adjacency: 2, Weight: 1}})
	for _, v := range []struct{ parent, kind, vid uint16 }{{0, 0x8100, 100}, {bond, 0x8100, 7}, {0, 0x88a8, 300}, {6, 0x8100, 7}} {
		tag, _ := fib.MakeTag(v.kind, v.vid)
		require.NoError(t, base.VLANs.Add(got(base.VLANs.Take())(t), v.parent, tag))
	}
	hops := []fib.NextHopID{got(base.NewNextHop(fib.KindBlackhole))(t), got(base.NewNextHop(fib.KindUnreachable))(t), got(base.NewNextHop(fib.KindProhibit))(t)}
	for port := range uint16(logical) {
		if port == 1 || port == 2 {
			continue
		}
		base.SetPort(port, fib.MAC(0x020000000000+uint64(port)), 1500-200*port)
		adjacency := got(base.NewAdjacency(port))(t)
		base.SetAdjacency(adjacency, port, 0x0200000000aa)
		hops = append(hops, got(base.NewNextHop(fib.KindForward, fib.Path{Adjacency: adjacency, Weight: 1}))(t))
	}
	unresolved := got(base.NewAdjacency(7))(t)
	base.SetAdjacency(unresolved, 7, 0)
	hops = append(hops, got(base.NewNextHop(fib.KindForward, fib.Path{Adjacency: unresolved, Weight: 1}))(t))
	red, blue := got(base.NewVRF())(t), got(base.NewVRF())(t)
	base.SetPortVRF(4, red)
	base.SetPortVRF(7, red)
	base.SetPortVRF(5, blue)
	var prefixes []netip.Prefix
	for n := range 32 {
		four, six := netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/16", n)), netip.MustParsePrefix(fmt.Sprintf("fd%02x::/64", n))
		prefixes = append(prefixes, four, six)
		require.NoError(t, base.IPv4.Insert(four, hops[rnd.IntN(len(hops))]))
		require.NoError(t, base.IPv6.Insert(six, hops[rnd.IntN(len(hops))]))
		for _, vrf := range []uint16{red, blue} {
			require.NoError(t, base.IPv4.VRF(int(vrf)).Insert(four, hops[rnd.IntN(len(hops))]))
			require.NoError(t, base.IPv6.VRF(int(vrf)).Insert(six, hops[rnd.IntN(len(hops))]))
		}
	}
	base.Commit()

	tags := [ports][][]uint16{
		{nil, {0x8100, 100}, {0x8100, 0xe064}, {0x88a8, 300}, {0x88a8, 300, 0x8100, 7}, {0x8100, 0}, {0x8100, 0, 0x8100, 100}, {0x8100, 101}, {0x88a8, 300, 0x8100, 8}},
		{nil, {0x8100, 7}}, {nil, {0x8100, 7}},
	}
	traffic := &testutil.Traffic{Rand: rnd, To: prefixes}
	pool := umem.NewPool(mem)
	queues := make([][]dataplane.Queue, ports)
	const each = 34_000
	for port := range queues {
		frames := make([][]byte, 8000)
		for i := range frames {
			f := traffic.Frame()
			for _, half := range slices.Backward(tags[port][rnd.IntN(len(tags[port]))]) {
				f = slices.Insert(f, 12, binary.BigEndian.AppendUint16(nil, half)...)
			}
			if rnd.IntN(8) == 0 {
				f = testutil.Mutate(rnd, f)
			}
			frames[i] = f
		}
		q := memport.New(uint16(port), mem, pool)
		q.Play(frames, each)
		q.Collect(func(f []byte) { ends[port] = append(ends[port], f[:0]) })
		queues[port] = []dataplane.Queue{q}
	}
	engine := &comparedEngine{
		Engine: cpu.New(base, mem.Bytes(), make([]bool, batch.MaxPorts)), t: t, umem: mem.Bytes(),
		shim: newShim(t, base, make([]bool, logical), maxPackets, len(mem.Bytes())), seen: map[batch.Verdict]int{},
	}
	router, err := dataplane.New(dataplane.Config{
		FIB: base, Ports: ports, MaxPackets: maxPackets, MaxDelay: time.Millisecond, Unresolved: func(uint32, netip.Addr) {},
		Workers: []dataplane.WorkerConfig{{CPU: affinity.Any, Memory: mem, Pool: pool, Engine: engine, Chunks: batch.NewChunks(4, maxPackets), Queues: queues}},
	})
	require.NoError(t, err)
	for number, physical := range map[uint16]uint16{3: 1, 4: 0, 5: 1, 6: 0, 7: 0} {
		router.AddPort(number, physical)
	}
	require.NoError(t, router.Start())
	received := func() (n uint64) {
		s := router.Stats()
		for i := range s.Ports {
			n += s.Ports[i].RxPackets
		}
		return n
	}
	for deadline := time.Now().Add(time.Minute); received() < ports*each && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	router.Stop()
	if n := received(); n != ports*each {
		t.Errorf("%d packets received of %d", n, ports*each)
	}
	for port, n := range engine.arrived {
		if member := port == 1 || port == 2; member != (n == 0) || !member && n < each/20 {
			t.Errorf("%d packets arrived on port %d", n, port)
		}
		if port != 1 && port != 2 && engine.seen[batch.Forward(uint16(port))] < each/50 {
			t.Errorf("%d packets for port %d", engine.seen[batch.Forward(uint16(port))], port)
		}
	}
	if engine.tagged < each/20 {
		t.Errorf("%d packets were tagged by the engine", engine.tagged)
	}
	for port, f := range ends {
		if len(f) == 0 {
			t.Errorf("port %d sent no frame", port)
		}
	}
	checkSeen(t, engine.seen, each/200, batch.NoRoute, batch.Blackhole, batch.Unreachable, batch.Prohibit, batch.MTUExceeded, batch.TTLExpired)
	t.Logf("packets by port %v, verdicts %v", engine.arrived, engine.seen)
}
