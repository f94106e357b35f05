package gpu

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/ipsec/suite"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// association is an SA of each direction, in both gateways, and the far end.
type association struct {
	ipsec.Config
	suite   *suite.Suite
	out, in [2]*ipsec.SA
	far     *ipsec.SA        // sends packets for the router to open
	host    *suite.Transform // with the same keys
	sent    [][]byte         // recent packets of the far end
}

var (
	ours4, ours6 = netip.MustParseAddr("10.1.8.8"), netip.MustParseAddr("fd01::e8")
	far4, far6   = netip.MustParseAddr("10.1.9.9"), netip.MustParseAddr("fd01::f9")
)

// SA number k protects packets to port outPort+k, and is required for those from inPort+k.
const outPort, inPort = 1000, 2000

// securedTwins are the two engines with all kinds of SAs.
type securedTwins struct {
	t        *testing.T
	rnd      *rand.Rand
	net      *testutil.Network
	gateways [2]*gateway.Gateway
	cpu      *cpu.Engine
	mem      []byte // the CPU engine's
	chunks   [2]*batch.Chunk
	gpu      secured
	all      []*association
	traffic  *testutil.Traffic
	frames   [][]byte
	seen     map[batch.Verdict]int
	opened   int
	found    int  // of these, the SA by the device
	admitted int  // of these, without another check of the policies by the host
	jobless  int  // received ESP for which the host made no job, forwarded
	sealed   int  // forwarded
	unread   int  // of these, with headers by the device
	askew    bool // unaligned frames
	swapped  int  // packets with another sequence number than on the CPU engine
	gaps     bool // the GPU engine leaves gaps between sequence numbers
	most     int  // packets of a chunk; 0: securedChunk
	routed   bool // SAs and policies have values of if_id, and routes lead over XFRM interfaces
}

func randomBytes(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

func newSecuredTwins(t *testing.T, maker securedMaker, seed uint64) *securedTwins {
	t.Helper()
	return newRoutedTwins(t, maker, seed, false)
}

func newRoutedTwins(t *testing.T, maker securedMaker, seed uint64, routed bool) *securedTwins {
	t.Helper()
	w := &securedTwins{
		routed: routed,
		t:      t, rnd: rand.New(rand.NewPCG(seed, 5)), net: testutil.NewNetwork(), seen: map[batch.Verdict]int{},
		mem: make([]byte, securedFrames*umem.FrameSize), gateways: [2]*gateway.Gateway{{}, {}},
	}
	w.traffic = &testutil.Traffic{Rand: w.rnd, To: append(slices.Repeat(w.net.Prefixes[:2], 8), w.net.Prefixes...)}
	w.chunks = [2]*batch.Chunk(batch.NewChunks(2, securedChunk))
	w.cpu = cpu.New(w.net.FIB, w.mem, w.net.PartialChecksums)
	w.cpu.Secure(w.gateways[0], 0)
	for i := range suite.All {
		for kind := range 16 {
			w.add(&suite.All[i], ipsec.Mode(kind&1), kind&2 != 0, kind&4 != 0, kind&8 != 0)
		}
	}
	if routed {
		w.route()
	}
	w.setRules()
	w.gpu = maker(t, w.net, w.gateways[1])
	return w
}

// add adds SAs of one kind.
func (w *securedTwins) add(s *suite.Suite, mode ipsec.Mode, ipv6, esn, encap bool) {
	k := len(w.all)
	a := &association{suite: s, Config: ipsec.Config{
		Name: fmt.Sprintf("%d %s %v, IPv6 %v, ESN %v, UDP %v", k, s.Name, mode, ipv6, esn, encap), SPI: 0x1000 + uint32(k),
		Mode: mode, Suite: s.Name, Key: randomBytes(w.rnd, s.KeyLen+s.SaltLen), AuthKey: randomBytes(w.rnd, s.AuthKeyLen), ESN: esn,
		ReplayWindow: 64, DF: ipsec.DFPolicy(k % 3), Src: ours4, Dst: far4,
	}}
	if w.routed && mode == ipsec.Tunnel {
		a.IfID = uint32(k / 2 % 3)
	}
	if ipv6 {
		a.Src, a.Dst = ours6, far6
	}
	if encap {
		a.Encap = &ipsec.Encap{SrcPort: 4500, DstPort: 4500}
	}
	var err error
	a.host, err = s.New(a.Key, a.AuthKey)
	require.NoError(w.t, err)
	sa := func(d ipsec.Direction, tunnel uint32) *ipsec.SA {
		c := a.Config
		c.Direction, c.Tunnel = d, tunnel
		if d == ipsec.In && k%7 == 3 { // limited
			c.Lifetime.Hard.Bytes = 1 << 40
		}
		s, err := ipsec.NewSA(c, 1)
		require.NoError(w.t, err)
		if esn { // close to the wrap of the lower half
			s.Skip(1<<32 - 40)
		}
		return s
	}
	for i, g := range w.gateways {
		a.out[i] = sa(ipsec.Out, g.Tunnel(fmt.Sprint("out", k)))
		require.NoError(w.t, g.Add(a.out[i]))
	}
	a.Src, a.Dst = a.Dst, a.Src
	for i, g := range w.gateways {
		a.in[i] = sa(ipsec.In, g.Tunnel(fmt.Sprint("in", k)))
		require.NoError(w.t, g.Add(a.in[i]))
	}
	a.far = sa(ipsec.Out, 0)
	w.all = append(w.all, a)
}

// otherChunk is a sequence number of jobs that no chunk has used since.
const otherChunk = 1 << 63

func (w *securedTwins) setRules() { w.setRulesAfter([2][]gateway.Rule{}) }

// setRulesAfter sets the policies of the SAs, with others in front of them, for each gateway.
func (w *securedTwins) setRulesAfter(first [2][]gateway.Rule) {
	for i, g := range w.gateways {
		rules := first[i]
		for k, a := range w.all {
			for _, any := range []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")} {
				p := policy.Policy{Src: any, Dst: any, Protocol: 17, Action: policy.Protect}
				out, in := p, p
				out.DstPorts, out.Target = policy.Port(outPort+uint16(k)), a.out[i].Tunnel()
				in.SrcPorts, in.Target = policy.Port(inPort+uint16(k)), a.in[i].Tunnel()
				rules = append(rules, gateway.Rule{Direction: ipsec.Out, IfID: a.IfID, Policy: out}, gateway.Rule{Direction: ipsec.In, IfID: a.IfID, Policy: in})
			}
		}
		require.NoError(w.t, g.SetRules(rules))
	}
}

// route leads networks over XFRM interfaces.
func (w *securedTwins) route() {
	for _, r := range []struct {
		ifIDs    []uint32
		prefixes []string
	}{{[]uint32{1}, []string{"10.1.0.128/25", "fd01::100/120"}}, {[]uint32{1, 2}, []string{"10.11.0.0/16", "fd0b::/64"}}} {
		var paths []fib.Path
		for _, id := range r.ifIDs {
			paths = append(paths, fib.Path{Adjacency: id, Weight: 1})
		}
		id, err := w.net.NewNextHop(fib.KindNoPort, paths...)
		require.NoError(w.t, err)
		w.net.Route(id, r.prefixes...)
	}
	for _, g := range w.gateways {
		g.SetInterfaces([]gateway.Interface{{IfID: 1, Up: true}, {IfID: 2, Up: true}})
	}
}

// run runs a chunk through both engines and compares them.
func (w *securedTwins) run(next func() []byte) {
	w.t.Helper()
	w.frames = w.frames[:0]
	// All frames of a chunk have the same alignment. A packet that is opened and sealed again is sealed
	// with the others if the device cannot process it, else behind them, with another sequence number.
	skew := 0
	if w.rnd.IntN(4) == 0 {
		skew = w.rnd.IntN(32)
	}
	w.askew = skew != 0
	rand8 := func() byte { return byte(w.rnd.Uint32()) }
	for i := range w.mem {
		if i%64 == 0 {
			w.mem[i] = rand8()
		}
	}
	c, d := w.chunks[0], w.chunks[1]
	c.N = 1 + w.rnd.IntN(cmp.Or(w.most, securedChunk))
	for i := range c.N {
		f := next()
		addr := uint32(i)*umem.FrameSize + umem.DataOffset
		if len(f) < umem.MaxFrameLen-32 {
			addr += uint32(skew)
		}
		copy(w.mem[addr:], f)
		c.In[i] = batch.Frame{Addr: addr, Len: uint16(len(f)), Origin: batch.From(uint16(w.rnd.IntN(4)))}
		w.frames = append(w.frames, f)
	}
	d.N = c.N
	copy(d.In, c.In[:c.N])
	copy(w.gpu.umem, w.mem)
	before := bytes.Clone(w.mem)
	received := slices.Clone(c.In[:c.N])
	for _, jobs := range w.gpu.engine.ipsec.free {
		for i := range jobs[:cap(jobs)] { // as another chunk left it
			some := w.all[0].in[1]
			jobs[:cap(jobs)][i] = esp.Job{Kind: esp.Open, Admitted: true, SAByDevice: true, Classified: true, ReservedSA: some, SA: some, Seq: otherChunk}
		}
	}
	w.gpu.settle()
	w.cpu.Submit(c)
	d.Submitted = batch.Clock()
	process(w.gpu.engine, d)
	for i, want := range c.Out[:c.N] {
		w.compare(i, want, received[i], before)
		v := want.Verdict
		if v.Action() == batch.ActionForward {
			v = batch.Forward(0)
		}
		w.seen[v]++
	}
	if tail := c.N * umem.FrameSize; !bytes.Equal(w.gpu.umem[tail:], before[tail:]) {
		w.t.Fatal("memory behind the chunk's frames was written to")
	}
}

// compare compares packet i with the CPU engine's.
func (w *securedTwins) compare(i int, want batch.Result, was batch.Frame, before []byte) {
	w.t.Helper()
	c, d := w.chunks[0], w.chunks[1]
	f, slot := c.In[i], was.Addr&^(umem.FrameSize-1)
	ours, theirs := w.mem[slot:][:umem.FrameSize], w.gpu.umem[slot:][:umem.FrameSize]
	fail := func(what string) {
		w.t.Helper()
		w.t.Fatalf("packet %d: %s\n  % x\nCPU: %+v, %v at %+v\n  % x\nGPU: %+v, %v at %+v\n  % x", i, what, w.frames[i],
			want, want.Verdict, c.In[i], ours[f.Addr-slot:][:f.Len], d.Out[i], d.Out[i].Verdict, d.In[i], theirs[f.Addr-slot:][:f.Len])
	}
	if d.Out[i] != want {
		fail("the results differ")
	}
	jobs := w.gpu.engine.ipsec.free // of the last chunk
	job := &jobs[len(jobs)-1][:d.N][i]
	_, _, received := ipsec.Inbound(w.frames[i][packet.EthernetLen:])
	jobless := false
	if job.Seq == otherChunk {
		job, jobless = &esp.Job{}, received && w.gpu.engine.othersShare == 0
	}
	open := job.Kind == esp.Open || job.SAByDevice || jobless
	if want.Verdict.Action() != batch.ActionDrop || !open {
		if d.In[i] != f {
			fail("it is elsewhere")
		}
		if a, b := ours[f.Addr-slot:][:f.Len], theirs[f.Addr-slot:][:f.Len]; !bytes.Equal(a, b) {
			if job.Kind == esp.Plain && !w.gaps || !otherNumber(a, b) || w.gaps && !bytes.Equal(w.decrypted(a), w.decrypted(b)) {
				fail("the bytes differ")
			}
			w.swapped++
		}
	}
	// The rest of the frame's memory is unchanged, or 0 in the sectors at both ends of the packet.
	low, high := min(f.Addr, was.Addr)-slot, max(f.Addr+uint32(f.Len), was.Addr+uint32(was.Len))-slot
	start, end := (low-2)&^31, (high+31)&^31
	if !bytes.Equal(theirs[:start], before[slot:][:start]) || !unchangedOrZero(theirs[start:low], before[slot:][start:low]) ||
		!unchangedOrZero(theirs[high:end], before[slot:][high:end]) || !bytes.Equal(theirs[end:], before[slot:][end:umem.FrameSize]) {
		fail("memory around it was written to")
	}
	if job.Kind == esp.Seal && want.Verdict.Action() == batch.ActionForward {
		w.sealed++
		if job.Unread {
			w.unread++
		}
	}
	if open && want.Verdict.Action() == batch.ActionForward {
		w.opened++
		if job.SAByDevice {
			w.found++
		}
		if job.Admitted || jobless {
			w.admitted++
		}
		if jobless {
			w.jobless++
		}
	}
}

// unchangedOrZero reports whether each byte is as it was or 0.
func unchangedOrZero(now, before []byte) bool {
	for i, b := range now {
		if b != before[i] && b != 0 {
			return false
		}
	}
	return true
}

// otherNumber reports whether two frames are ESP of one SA with different sequence numbers. A packet
// that the device opens is sealed again after the other packets of the chunk, with a later number.
func otherNumber(a, b []byte) bool {
	spi, at, is := ipsec.Inbound(a[packet.EthernetLen:])
	spi2, at2, is2 := ipsec.Inbound(b[packet.EthernetLen:])
	at += packet.EthernetLen
	return is && is2 && spi == spi2 && at == at2+packet.EthernetLen && !bytes.Equal(a[at+4:at+8], b[at+4:at+8])
}

// decrypted returns the inner packet of a frame with ESP of an outbound SA.
func (w *securedTwins) decrypted(frame []byte) []byte {
	w.t.Helper()
	spi, _, _ := ipsec.Inbound(frame[packet.EthernetLen:])
	a := w.all[spi-0x1000]
	c := a.out[1].Config()
	c.Direction, c.Key, c.AuthKey = ipsec.In, a.Key, a.AuthKey
	sa, err := ipsec.NewSA(c, 1)
	require.NoError(w.t, err)
	if a.ESN {
		sa.Skip(a.out[0].Sequence() - 1000)
	}
	buf := append(make([]byte, 64), frame[packet.EthernetLen:]...)
	at, n, e := sa.Decapsulate(0, buf, 64, len(buf)-64)
	if e != ipsec.OK {
		w.t.Fatalf("%s: %v", a.Name, e)
	}
	return buf[at : at+n]
}
