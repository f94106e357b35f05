package gpu

import (
	"fmt"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/device"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/suite"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// secured is an engine with a device or a fake device.
type secured struct {
	umem   []byte
	engine *Engine
	settle func() // waits until the device has all patches
}

// securedMaker returns a worker of a gateway.
type securedMaker func(t *testing.T, net *testutil.Network, g *gateway.Gateway) secured

const (
	securedFrames = 256
	securedChunk  = 200
)

// Store, Erase and SetPolicies implement gateway.Device.
func (s *shim) Store(number uint32, k *device.Key) {
	copy(s.keys[int(number)*keyBytes:][:keyBytes], k.Bytes())
}

func (s *shim) Erase(number uint32) { clear(s.keys[int(number)*keyBytes:][:keyBytes]) }

func (s *shim) AddSPI(spi, index uint32)    { s.spiTable.AddSPI(spi, index) }
func (s *shim) RemoveSPI(spi, index uint32) { s.spiTable.RemoveSPI(spi, index) }

func (s *shim) SetPolicies(in, out []uint32) { copy(s.policies, packPolicies(in, out)) }

// newIPsecEngine returns the engine of a gateway's worker, without a device. It posts packets to seal with jobs: see unread.
func newIPsecEngine(t *testing.T, net *testutil.Network, g *gateway.Gateway, mem []byte, slots, size int, keys uint32, o Options) *Engine {
	t.Helper()
	fallback := cpu.New(net.FIB, mem, net.PartialChecksums)
	fallback.Secure(g, 0)
	mailbox, pool := newTestMailbox(t, slots, size)
	e := newEngine(fallback, &deviceState{}, &kernelState{}, mailbox, pool, mem, o)
	e.ipsec = newIPsecPath(slots, size, keys)
	for lane := range e.traffic {
		e.traffic[lane].classifying.fixed, e.traffic[lane].expected.fixed = true, true
	}
	return e
}

// securedOnHost returns an engine with the shim's kernel. A warp's staging buffer has stagingWords
// words.
func securedOnHost(stagingWords int) securedMaker {
	return func(t *testing.T, net *testutil.Network, g *gateway.Gateway) secured {
		t.Helper()
		s, _ := securedOnShim(t, net, g, Shape{Staging: 4 * stagingWords}, 1)
		return s
	}
}

// securedOnShim is securedOnHost with the staging buffers and AES tables of a shape, and a number of slots. It returns the shim, too. limits
// are further arguments of the shim's program.
func securedOnShim(t *testing.T, net *testutil.Network, g *gateway.Gateway, of Shape, slots int, limits ...string) (secured, *shim) {
	t.Helper()
	args := append([]string{fmt.Sprint(of.Staging / 4), fmt.Sprint(of.aesBytes())}, limits...)
	sh := startShim(t, net.FIB, net.PartialChecksums, securedChunk, securedFrames*umem.FrameSize, "testdata/gateway.c", args...)
	g.Follow(of.filter(sh))
	e := newIPsecEngine(t, net, g, sh.umem, slots, securedChunk, shimKeys, Options{Timeout: 1 << 40, PartialChecksums: net.PartialChecksums})
	e.esp.SetHostDecryptsCBC(of.WithoutCBC)
	e.shadow = newShadow(e, securedChunk, 1, nil)
	for i := range e.mailbox.blocks {
		e.mailbox.blocks[i].last = 1<<32 - 4 // tile numbers wrap
	}
	e.fakeGPU = eachTile(e, func(s *slot, in []batch.Frame, jobs []esp.Job) {
		for i := range in {
			sh.deviceJobs[i] = deviceJob{}
			if jobs != nil {
				sh.deviceJobs[i] = s.jobs[i]
			}
		}
		flags := int(s.descriptors[0]>>32) & (findSAsFlag | classifyFlag | clampMSSFlag | expectFlag | seqFlag)
		if flags&(findSAsFlag|classifyFlag|expectFlag) == 0 {
			flags |= hasJobsFlag
		}
		sh.process(s, len(in), flags)
		copy(s.results, sh.out[:len(in)])
		if flags&(findSAsFlag|expectFlag|seqFlag) != 0 {
			copy(s.saReports(), sh.reports[:len(in)])
		}
	})
	sh.released = e.mailbox.released
	return secured{sh.umem, e, func() {}}, sh
}

// process processes a tile of a slot, with flags of the tile header.
func (s *shim) process(tile *slot, n, flags int) {
	copy(s.slot, bytesOf(tile.descriptors))
	copy(s.slot[1<<15+releasedAt:], bytesOf(s.released))
	s.submit(n | tile.each<<tileBatchShift | flags)
}

// agreeOnSecured runs random packets through both engines and compares their counters.
func agreeOnSecured(t *testing.T, maker securedMaker, packets int) *securedTwins {
	t.Helper()
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
	if w.gpu.engine.shadow != nil {
		agreedInShadow(t, w.gpu.engine)
	}
	checkSeen(t, w.seen, packets/5000,
		batch.TTLExpired, batch.BadChecksum, batch.PortDown, batch.Blackhole, batch.MTUExceeded, batch.XfrmInStateSeqError, batch.XfrmInStateProtoError,
		batch.XfrmInStateModeError, batch.XfrmInTmplMismatch, batch.XfrmInNoPols, batch.XfrmInDummy, batch.XfrmInECNError, batch.XfrmOutStateModeError)
	limit := packets / 1000
	if w.gpu.engine.traffic[0].finding.on { // packets that were opened first are sealed before the others
		limit = packets / 100
	}
	if w.swapped > limit {
		t.Errorf("%d of %d packets were sealed in another order: too many", w.swapped, packets)
	}
	if w.admitted < w.opened/2 {
		t.Errorf("the device admitted %d of %d opened packets itself: too few", w.admitted, w.opened)
	}
	t.Logf("%d opened and forwarded, %d with an SA found by the device, %d sealed in another order, verdicts %v", w.opened, w.found, w.swapped, w.seen)
	return w
}

// TestGatewayCodeAgreesWithTheCPUEngine compares bytes and results of packets to seal and to open.
func TestGatewayCodeAgreesWithTheCPUEngine(t *testing.T) {
	packets := 10_000
	if testing.Short() {
		packets = 3000
	}
	agreeOnSecured(t, securedOnHost(3900), packets) // of an H100
}

// TestGatewayCodeWorksWithSmallestStagingBuffer: it has room for any packet, one at a time.
func TestGatewayCodeWorksWithSmallestStagingBuffer(t *testing.T) {
	w := newSecuredTwins(t, securedOnHost(stagingOf(1, umem.FrameSize)/4), 2)
	for range 5 {
		w.run(w.next)
	}
	w.net.SetPort(1, 0x020000000011, umem.MaxMTU)
	w.net.Commit()
	w.run(func() []byte { // of the MTU, or larger
		return testutil.UDP4("192.0.2.1", "10.1.0.1", 9, uint16(outPort+w.rnd.IntN(len(w.all))), make([]byte, umem.MaxMTU-28-w.rnd.IntN(160))...)
	})
	large := 0
	for _, r := range w.chunks[0].Out[:w.chunks[0].N] {
		if r.Verdict == batch.Forward(1) && r.Len() > umem.MaxFrameLen-16 {
			large++
		}
	}
	if large == 0 {
		t.Error("no packet was as large as may be")
	}
}

// TestIPsecPathAllocatesNothing covers the steps before and after the device.
func TestIPsecPathAllocatesNothing(t *testing.T) {
	w := newSecuredTwins(t, securedOnHost(3900), 3)
	var null []int // suites without encryption, so that routes apply
	for k, a := range w.all[:len(w.all)-2] {
		if a.suite.Cipher == suite.Null && a.Mode == ipsec.Tunnel && !a.ESN {
			null = append(null, k)
		}
	}
	e, d := w.gpu.engine, w.chunks[1]
	e.shadow = nil                                                            // the fake device decrypts nothing
	e.fakeGPU = eachTile(e, func(s *slot, in []batch.Frame, jobs []esp.Job) { // like a device that has opened all packets
		for i := range in {
			job := &jobs[i]
			if job.Kind == esp.Seal {
				e.checker.icvEnd(in[i], job)[0]++
				s.results[i] = batch.ForwardTo(1, in[i].Addr, in[i].Len)
				continue
			}
			s.results[i] = batch.ForwardTo(1, in[i].Addr+uint32(job.ESP)+8-packet.EthernetLen, 40)
		}
	})
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
		process(e, d)
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
