package gpu

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/device"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/ipsec/suite"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// secured is an engine with a device, or what stands in for one.
type secured struct {
	umem   []byte
	engine *Engine
	settle func() // waits until the device has all changes of tables
}

// securedMaker makes one that is a worker of a gateway.
type securedMaker func(t *testing.T, net *testutil.Network, g *gateway.Gateway) secured

const (
	securedFrames = 256
	securedChunk  = 200
)

// Hold and Forget are gateway.Holder's.
func (s *shim) Hold(number uint32, k *device.Key) {
	copy(s.keys[int(number)*keyBytes:][:keyBytes], k.Bytes())
}

func (s *shim) Forget(number uint32) { clear(s.keys[int(number)*keyBytes:][:keyBytes]) }

// securedOnHost is an engine whose kernel is the shim's. A warp's stage has stageWords
// words.
func securedOnHost(stageWords int) securedMaker {
	return func(t *testing.T, net *testutil.Network, g *gateway.Gateway) secured {
		t.Helper()
		sh := startShim(t, net.FIB, net.Repair, securedChunk, securedFrames*umem.FrameSize, "testdata/gateway.c", fmt.Sprint(stageWords))
		g.Follow(sh)
		fallback := cpu.New(net.FIB, sh.umem, net.Repair)
		fallback.Secure(g, 0)
		mail, err := newMailbox(1, securedChunk)
		if err != nil {
			t.Fatal(err)
		}
		e := newEngine(fallback, &health{}, mail, sh.umem, Options{Timeout: 1 << 40})
		if e.securer, err = newSecurer(1, securedChunk, shimKeys); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.securer.jobs.close(); mail.close() })
		e.launch = func(slot int, seq uint32, n int) error {
			s := &e.mail.slots[slot]
			for i := range n {
				word := s.quads[i/unitFrames*unitWords+1+i%unitFrames]
				sh.in[i] = batch.Frame{Addr: uint32(word), Len: uint16(word >> 32), Port: uint16(word >> 48)}
				sh.jobs[i] = job{}
				if s.flags == jobsSize {
					sh.jobs[i] = e.securer.jobs.slots[slot][i]
				}
			}
			sh.submit(n)
			copy(s.results, sh.out[:n])
			for i := range s.parts {
				atomic.StoreUint32(&s.done[i], seq)
			}
			return nil
		}
		return secured{sh.umem, e, func() {}}
	}
}

// association is one of each direction, in both gateways, and the far end.
type association struct {
	ipsec.Config
	suite   *suite.Suite
	out, in [2]*ipsec.SA
	far     *ipsec.SA        // sends what the router is to open
	host    *suite.Transform // with the same keys
	sent    [][]byte         // what the far end has sent lately
}

var (
	ours4, ours6 = netip.MustParseAddr("10.1.8.8"), netip.MustParseAddr("fd01::e8")
	far4, far6   = netip.MustParseAddr("10.1.9.9"), netip.MustParseAddr("fd01::f9")
)

// The association number k protects packets to port outPort+k, and those from inPort+k
// have to come by it.
const outPort, inPort = 1000, 2000

// bench is the two engines with all kinds of associations.
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
	askew    bool // frames of the chunk are not in line
	swapped  int  // packets with another sequence number than the CPU engine gave them
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
	w := &securedTwins{
		t: t, rnd: rand.New(rand.NewPCG(seed, 5)), net: testutil.NewNetwork(), seen: map[batch.Verdict]int{},
		mem: make([]byte, securedFrames*umem.FrameSize), gateways: [2]*gateway.Gateway{{}, {}},
	}
	w.traffic = &testutil.Traffic{Rand: w.rnd, To: append(slices.Repeat(w.net.Prefixes[:2], 8), w.net.Prefixes...)}
	slab, err := batch.NewSlab(2, securedChunk)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slab.Close() })
	w.chunks = [2]*batch.Chunk(slab.Chunks)
	w.cpu = cpu.New(w.net.FIB, w.mem, w.net.Repair)
	w.cpu.Secure(w.gateways[0], 0)
	for i := range suite.All {
		for kind := range 16 {
			w.add(&suite.All[i], ipsec.Mode(kind&1), kind&2 != 0, kind&4 != 0, kind&8 != 0)
		}
	}
	w.setRules()
	w.gpu = maker(t, w.net, w.gateways[1])
	return w
}

// add makes associations of one kind.
func (w *securedTwins) add(s *suite.Suite, mode ipsec.Mode, ipv6, esn, encap bool) {
	k := len(w.all)
	a := &association{suite: s, Config: ipsec.Config{
		Name: fmt.Sprintf("%d %s %v, IPv6 %v, ESN %v, UDP %v", k, s.Name, mode, ipv6, esn, encap), SPI: 0x1000 + uint32(k),
		Mode: mode, Suite: s.Name, Key: randomBytes(w.rnd, s.KeyLen+s.SaltLen), AuthKey: randomBytes(w.rnd, s.AuthKeyLen), ESN: esn,
		ReplayWindow: 64, DF: ipsec.DFPolicy(k % 3), Src: ours4, Dst: far4,
	}}
	if ipv6 {
		a.Src, a.Dst = ours6, far6
	}
	if encap {
		a.Encap = &ipsec.Encap{SrcPort: 4500, DstPort: 4500}
	}
	var err error
	if a.host, err = s.New(a.Key, a.AuthKey); err != nil {
		w.t.Fatal(err)
	}
	sa := func(d ipsec.Direction, bundle uint32) *ipsec.SA {
		c := a.Config
		c.Direction, c.Bundle = d, bundle
		s, err := ipsec.NewSA(c, 1)
		if err != nil {
			w.t.Fatal(err)
		}
		if esn { // soon to pass the end of the lower half
			s.Skip(1<<32 - 40)
		}
		return s
	}
	for i, g := range w.gateways {
		a.out[i] = sa(ipsec.Out, g.Bundle(fmt.Sprint("out", k)))
		if err := g.Add(a.out[i]); err != nil {
			w.t.Fatal(err)
		}
	}
	a.Src, a.Dst = a.Dst, a.Src
	for i, g := range w.gateways {
		a.in[i] = sa(ipsec.In, g.Bundle(fmt.Sprint("in", k)))
		if err := g.Add(a.in[i]); err != nil {
			w.t.Fatal(err)
		}
	}
	a.far = sa(ipsec.Out, 0)
	w.all = append(w.all, a)
}

func (w *securedTwins) setRules() {
	for i, g := range w.gateways {
		var rules []gateway.Rule
		for k, a := range w.all {
			for _, any := range []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")} {
				p := policy.Policy{Src: any, Dst: any, Protocol: 17, Action: policy.Protect}
				out, in := p, p
				out.DstPorts, out.Target = policy.Port(outPort+uint16(k)), a.out[i].Bundle()
				in.SrcPorts, in.Target = policy.Port(inPort+uint16(k)), a.in[i].Bundle()
				rules = append(rules, gateway.Rule{Direction: ipsec.Out, Policy: out}, gateway.Rule{Direction: ipsec.In, Policy: in})
			}
		}
		if err := g.SetRules(rules); err != nil {
			w.t.Fatal(err)
		}
	}
}

// run has both engines decide on a chunk, and compares them.
func (w *securedTwins) run(next func() []byte) {
	w.t.Helper()
	w.frames = w.frames[:0]
	// All frames of a chunk are askew alike: packets that are opened and sealed again are sealed
	// with the others where a device cannot have them, and behind them where it can, with
	// another sequence number.
	skew := 0
	if w.rnd.IntN(4) == 0 {
		skew = w.rnd.IntN(16)
	}
	w.askew = skew != 0
	rand8 := func() byte { return byte(w.rnd.Uint32()) }
	for i := range w.mem {
		if i%64 == 0 {
			w.mem[i] = rand8()
		}
	}
	c, d := w.chunks[0], w.chunks[1]
	c.N = 1 + w.rnd.IntN(securedChunk)
	for i := range c.N {
		f := next()
		addr := uint32(i)*umem.FrameSize + umem.DataOffset
		if len(f) < umem.MaxFrameLen-16 {
			addr += uint32(skew)
		}
		copy(w.mem[addr:], f)
		c.In[i] = batch.Frame{Addr: addr, Len: uint16(len(f)), Port: uint16(w.rnd.IntN(4))}
		w.frames = append(w.frames, f)
	}
	d.N = c.N
	copy(d.In, c.In[:c.N])
	copy(w.gpu.umem, w.mem)
	before := bytes.Clone(w.mem)
	received := slices.Clone(c.In[:c.N])
	w.gpu.settle()
	w.cpu.Submit(c)
	d.Submitted = batch.Clock()
	w.gpu.engine.Submit(d)
	for !w.gpu.engine.Done(d) {
	}
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

// compare holds what became of packet i against the CPU engine.
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
	task := &w.gpu.engine.securer.tasks[0][i]
	if want.Verdict.Action() != batch.ActionDrop || task.Kind != cpu.Open {
		if d.In[i] != f {
			fail("it is elsewhere")
		}
		if a, b := ours[f.Addr-slot:][:f.Len], theirs[f.Addr-slot:][:f.Len]; !bytes.Equal(a, b) {
			if task.Kind == cpu.Plain || !otherNumber(a, b) {
				fail("the bytes differ")
			}
			w.swapped++
		}
	}
	// Nothing else of the frame's memory is written to.
	low, high := min(f.Addr, was.Addr)-slot, max(f.Addr+uint32(f.Len), was.Addr+uint32(was.Len))-slot
	if !bytes.Equal(theirs[:low], before[slot:][:low]) || !bytes.Equal(theirs[high:], before[slot:][high:umem.FrameSize]) {
		fail("memory around it was written to")
	}
	if task.Kind == cpu.Open && want.Verdict.Action() == batch.ActionForward {
		w.opened++
	}
}

// otherNumber tells whether two frames carry ESP by one association, with different
// sequence numbers. What a device opens is sealed again when it is done, behind packets of
// the chunk that were sealed right away, and takes its number then.
func otherNumber(a, b []byte) bool {
	spi, at, is := ipsec.Inbound(a[packet.EthernetLen:])
	spi2, at2, is2 := ipsec.Inbound(b[packet.EthernetLen:])
	at += packet.EthernetLen
	return is && is2 && spi == spi2 && at == at2+packet.EthernetLen && !bytes.Equal(a[at+4:at+8], b[at+4:at+8])
}

// agreeOnSecured has both work on random packets, and compares what they counted.
func agreeOnSecured(t *testing.T, maker securedMaker, packets int) {
	w := newSecuredTwins(t, maker, 1)
	for n := 0; n < packets; n += w.chunks[0].N {
		w.run(w.next)
	}
	for _, a := range w.all {
		for what, s := range map[string][2]*ipsec.SA{"out": a.out, "in": a.in} {
			if got, want := s[1].Stats(), s[0].Stats(); got != want || s[0].Sequence() != s[1].Sequence() {
				t.Errorf("%s, %s: %+v up to %d, the CPU engine %+v up to %d", a.Name, what, got, s[1].Sequence(), want, s[0].Sequence())
			}
		}
	}
	must := []batch.Verdict{batch.Forward(0), batch.Hold}
	for _, r := range []batch.Reason{
		batch.TTLExpired, batch.BadChecksum, batch.PortDown, batch.Blackhole, batch.MTUExceeded, batch.XfrmInStateSeqError, batch.XfrmInStateProtoError,
		batch.XfrmInStateModeError, batch.XfrmInTmplMismatch, batch.XfrmInNoPols, batch.XfrmInDummy, batch.XfrmInECNError, batch.XfrmOutStateModeError,
	} {
		must = append(must, batch.Drop(r))
	}
	for _, v := range must {
		if w.seen[v] < packets/5000 {
			t.Errorf("of %d packets, only %d had the verdict %v", packets, w.seen[v], v)
		}
	}
	if w.swapped > packets/1000 {
		t.Errorf("%d of %d packets were sealed out of turn, that is not seldom", w.swapped, packets)
	}
	t.Logf("%d opened and forwarded, %d sealed out of turn, verdicts %v", w.opened, w.swapped, w.seen)
}

// Whatever is to be sealed or opened, the gateway kernel's code leaves the same bytes
// and comes to the same results as the CPU engine.
func TestGatewayCodeAgreesWithTheCPUEngine(t *testing.T) {
	packets := 10_000
	if testing.Short() {
		packets = 3000
	}
	agreeOnSecured(t, securedOnHost(3900), packets) // an H100's
}

// The smallest stage that a device may have is large enough for every packet, if only for
// one at a time.
func TestGatewayCodeWorksOnTheSmallestStage(t *testing.T) {
	w := newSecuredTwins(t, securedOnHost(minStage/4), 2)
	for range 5 {
		w.run(w.next)
	}
	w.net.SetPort(1, 0x020000000011, umem.MaxMTU)
	w.net.Bump()
	w.run(func() []byte { // as large as a port lets through, or larger
		return testutil.UDP4("192.0.2.1", "10.1.0.1", 9, uint16(outPort+w.rnd.IntN(len(w.all))), make([]byte, umem.MaxMTU-28-w.rnd.IntN(160))...)
	})
	large := 0
	for _, r := range w.chunks[0].Out[:w.chunks[0].N] {
		if r.Verdict == batch.Forward(1) && r.Len > umem.MaxFrameLen-16 {
			large++
		}
	}
	if large == 0 {
		t.Error("no packet was as large as may be")
	}
}

// Neither what is settled before the device nor what is settled after it allocates.
func TestSecuringAllocatesNothing(t *testing.T) {
	w := newSecuredTwins(t, securedOnHost(3900), 3)
	var null []int // suites that leave the packet legible, and routes to be followed
	for k, a := range w.all[:len(w.all)-2] {
		if a.suite.Cipher == suite.Null && a.Mode == ipsec.Tunnel && !a.ESN {
			null = append(null, k)
		}
	}
	e, d := w.gpu.engine, w.chunks[1]
	e.launch = func(slot int, seq uint32, n int) error { // as a device that has opened all packets
		s := &e.mail.slots[slot]
		for i := range n {
			task := &e.securer.tasks[slot][i]
			s.results[i] = batch.Result{Addr: d.In[i].Addr + uint32(task.ESP) + 8 - packet.EthernetLen, Len: 64, Verdict: batch.Forward(1)}
		}
		for i := range s.parts {
			atomic.StoreUint32(&s.done[i], seq)
		}
		return nil
	}
	d.N = securedChunk
	var received [securedChunk]batch.Frame
	for i := range received {
		f := w.clear(i%3 == 0, 9, outPort+i%len(null))
		if k := null[i%len(null)]; i%2 == 0 {
			f = w.protected(w.all[k], w.clear(i%3 == 0, inPort+k, 9), nil)
		}
		received[i] = batch.Frame{Addr: uint32(i)*umem.FrameSize + umem.DataOffset, Len: uint16(len(f))}
		copy(w.gpu.umem[received[i].Addr:], f)
	}
	run := func() {
		copy(d.In, received[:])
		d.Submitted = batch.Clock()
		e.Submit(d)
		for !e.Done(d) {
		}
	}
	run()
	forwarded := 0
	for _, r := range d.Out[:d.N] {
		if r.Verdict == batch.Forward(1) {
			forwarded++
		}
	}
	if forwarded < securedChunk/2 {
		t.Fatalf("only %d packets are forwarded", forwarded)
	}
	if n := testing.AllocsPerRun(10, run); n != 0 {
		t.Errorf("a chunk allocates %v times", n)
	}
}
