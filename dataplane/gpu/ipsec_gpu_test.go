//go:build gpu

package gpu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/ipsec/suite"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// gatewaysOnGPU opens a device for each gateway, all on one GPU.
func gatewaysOnGPU(t *testing.T, net *testutil.Network, o Options, gateways ...*gateway.Gateway) *Devices {
	t.Helper()
	all := &Devices{}
	t.Cleanup(func() {
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, g := range gateways {
		o.Gateway, o.PartialChecksums = g, net.PartialChecksums
		d := got(openFirst(net.FIB, o))(t)
		all.All = append(all.All, d)
	}
	return all
}

// workerOnGPU returns a worker on d.
func workerOnGPU(t *testing.T, d *Device, net *testutil.Network, g *gateway.Gateway, frames, chunks, size int) secured {
	t.Helper()
	mem := got(umem.New(frames))(t)
	fallback := cpu.New(net.FIB, mem.Bytes(), net.PartialChecksums)
	fallback.Secure(g, 0)
	e := got(d.NewEngine(mem.Bytes(), chunks, size, fallback))(t)
	return secured{mem.Bytes()[:frames*umem.FrameSize], e, d.tables.patcher.drain}
}

func securedOnGPU(t *testing.T, net *testutil.Network, g *gateway.Gateway) secured {
	return openSecured(t, net, g, Options{})
}

// openSecured returns a worker on a GPU that is opened with some options.
func openSecured(t *testing.T, net *testutil.Network, g *gateway.Gateway, o Options) secured {
	o.Timeout, o.Shadow, o.blocks = 10*time.Second, 1, shortBlocks()
	d := gatewaysOnGPU(t, net, o, g).All[0]
	t.Cleanup(func() {
		if err := d.Err(); err != nil {
			t.Error(err)
		}
	})
	for _, a := range []struct {
		name string
		of   cuda.FunctionAttribute
	}{{"registers", cuda.FunctionRegisters}, {"bytes of local memory", cuda.FunctionLocal}} {
		n := got(d.kernel.code.Attribute(a.of))(t)
		t.Logf("the gateway kernel has %d %s; slots: %d, staging buffers of %d words", n, a.name, d.kernel.pool.blocks, d.shape.Staging/4)
	}
	return workerOnGPU(t, d, net, g, securedFrames, 1, securedChunk)
}

func TestGPUAgreesOnExpectedSAs(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 2
	}
	agreeOnExpected(t, securedOnGPU, rounds)
}

func TestGPUGatewayAgreesWithTheCPUEngine(t *testing.T) {
	packets := 500_000
	if testing.Short() {
		packets = 10_000
	}
	agreeOnSecured(t, securedOnGPU, packets)
}

func TestGPUSALookupAgreesWithTheCPUEngine(t *testing.T) {
	packets := 500_000
	if testing.Short() {
		packets = 10_000
	}
	if w := agreeOnSecured(t, unread(securedOnGPU, true, false), packets); w.found < w.opened/8 {
		t.Errorf("the device found the SAs of %d of %d opened packets: too few", w.found, w.opened)
	}
}

func TestGPUClassificationAgreesWithTheCPUEngine(t *testing.T) {
	packets := 250_000
	if testing.Short() {
		packets = 10_000
	}
	for _, find := range []bool{false, true} {
		t.Run(fmt.Sprintf("SA lookup %v", find), func(t *testing.T) {
			if w := agreeOnSecured(t, unread(securedOnGPU, find, true), packets); w.unread < w.sealed/8 {
				t.Errorf("the device wrote the headers of %d of %d sealed packets: too few", w.unread, w.sealed)
			}
		})
	}
}

func TestGPUGatewayAppliesThePolicies(t *testing.T) { appliesPolicies(t, securedOnGPU, 100) }

// TestGPUGatewayReloadsUnderLoad replaces the policies by the same ones while packets are decrypted.
func TestGPUGatewayReloadsUnderLoad(t *testing.T) {
	w := newSecuredTwins(t, securedOnGPU, 22)
	rules := w.gateways[1].Rules()
	stop, reloads := make(chan struct{}), 0
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := w.gateways[1].SetRules(rules); err != nil {
				t.Error(err)
				return
			}
			reloads++
		}
	})
	for start := time.Now(); time.Since(start) < 2*time.Second; {
		w.run(func() []byte { return w.inbound(w.rnd.IntN(len(w.all))) })
	}
	close(stop)
	ended.Wait()
	if reloads < 50 || w.admitted < 1000 {
		t.Errorf("%d reloads, %d packets admitted by the device: too few", reloads, w.admitted)
	}
}

func TestGPUGatewaySealsByCBC(t *testing.T) { agreeOnCBC(t, securedOnGPU) }

func TestGPUGatewayAgreesOnSources(t *testing.T) { agreeOnSecuredSources(t, securedOnGPU) }

// site is a gateway at one end of tunnels.
type site struct {
	gateway *gateway.Gateway
	worker  secured
	chunks  []*batch.Chunk
}

const (
	rekeyed     = 8 // tunnels with continuous rekeying
	rekeyChunk  = 256
	rekeyChunks = 4
)

// newSites returns the two ends, on one GPU. Both devices are opened first, as no kernel can be loaded
// beside a resident one.
func newSites(t *testing.T, net *testutil.Network) (sites [2]*site) {
	t.Helper()
	for i := range sites {
		sites[i] = &site{gateway: &gateway.Gateway{}}
	}
	o := Options{Timeout: time.Second, blocks: 16} // blocks of two kernels
	devices := gatewaysOnGPU(t, net, o, sites[0].gateway, sites[1].gateway)
	for i, s := range sites {
		s.worker = workerOnGPU(t, devices.All[i], net, s.gateway, rekeyChunk*rekeyChunks, rekeyChunks, rekeyChunk)
		s.chunks = batch.NewChunks(rekeyChunks, rekeyChunk)
		any := netip.MustParsePrefix("0.0.0.0/0")
		var rules []gateway.Rule
		for k := range rekeyed {
			b := s.gateway.Tunnel(fmt.Sprint(k))
			p := policy.Policy{Src: any, Dst: any, Protocol: 17, DstPorts: policy.Port(uint16(outPort + k)), Action: policy.Protect, Target: b}
			rules = append(rules, gateway.Rule{Direction: ipsec.Direction(i), Policy: p})
		}
		require.NoError(t, s.gateway.SetRules(rules))
	}
	return sites
}

func (s *site) submit() {
	for _, c := range s.chunks {
		c.N, c.Submitted = rekeyChunk, batch.Clock()
		s.worker.engine.Submit(c)
	}
	for _, c := range s.chunks {
		for !s.worker.engine.Done(c) {
		}
	}
}

// pair is an SA at both ends.
type pair [2]*ipsec.SA

func (p *pair) zero() {
	for _, s := range p {
		s.Zero()
	}
}

// TestGPURekeysUnderLoad: no packet is lost or changed beside a rekeying every millisecond.
func TestGPURekeysUnderLoad(t *testing.T) {
	net := testutil.NewNetwork()
	sites := newSites(t, net)
	suites := []string{"aes128gcm16", "chacha20poly1305", "aes128ctr-sha256", "aes128-sha1", "aes256-sha512", "aes256gcm16", "null-sha256", "aes192gcm16"}
	var rounds, rekeys atomic.Int64
	serial := 0
	make2 := func(k int) (p pair) {
		serial++
		for i := range p {
			c := ipsec.Config{
				SPI: 0x1000 + uint32(serial), Direction: ipsec.Direction(i), Src: netip.MustParseAddr("198.51.100.1"), Dst: far4,
				Suite: suites[k], Key: bytes.Repeat([]byte{byte(serial), byte(serial >> 8), 1, 2}, 16), AuthKey: bytes.Repeat([]byte{byte(serial), 3}, 32),
				ReplayWindow: 4096, Tunnel: uint32(k),
			}
			c.Key, c.AuthKey = cutKeys(t, c)
			var err error
			p[i], err = ipsec.NewSA(c, 1)
			require.NoError(t, err)
		}
		for i := range sites { // the receiver first
			require.NoError(t, sites[1-i].gateway.Add(p[1-i]))
		}
		return p
	}
	current := [rekeyed]pair{}
	for k := range current {
		current[k] = make2(k)
	}
	stop := make(chan struct{})
	var stopped sync.WaitGroup
	stopped.Go(func() {
		wait := func() { // until the worker has completed a round
			for now := rounds.Load(); rounds.Load() < now+2; time.Sleep(10 * time.Microsecond) {
				select {
				case <-stop:
					return
				default:
				}
			}
		}
		for k := 0; ; k = (k + 1) % rekeyed {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			old := current[k]
			current[k] = make2(k)
			wait()
			for i, s := range sites {
				s.gateway.Remove(old[i])
			}
			wait()
			old.zero()
			rekeys.Add(1)
		}
	})
	frames := make([][]byte, rekeyed*8)
	for i := range frames {
		frames[i] = testutil.UDP4("192.0.2.1", fmt.Sprintf("10.1.1.%d", i), 1, uint16(outPort+i%rekeyed), bytes.Repeat([]byte{byte(i)}, 20+i*20)...)
	}
	packets := 0
	for start := time.Now(); time.Since(start) < 5*time.Second && !t.Failed(); rounds.Add(1) {
		exchange(t, sites, frames, &packets)
	}
	close(stop)
	stopped.Wait()
	t.Logf("%d packets through two gateways, %d rekeyings", packets, rekeys.Load())
	if rekeys.Load() < 200 || packets < 100_000 {
		t.Errorf("only %d rekeyings and %d packets", rekeys.Load(), packets)
	}
	for i, s := range sites {
		if s.worker.engine.Name() != "gpu" || s.worker.engine.executed[ExecutedOnCPU].Load() > 0 {
			t.Errorf("site %d: the CPU engine decided", i)
		}
	}
}

// cutKeys cuts the keys to the lengths of the suite.
func cutKeys(t *testing.T, c ipsec.Config) (key, auth []byte) {
	t.Helper()
	s := got(suite.ByName(c.Suite))(t)
	return c.Key[:s.KeyLen+s.SaltLen], c.AuthKey[:s.AuthKeyLen]
}

// exchange sends frames through both sites and compares the results with the originals.
func exchange(t *testing.T, sites [2]*site, frames [][]byte, packets *int) {
	t.Helper()
	a, b := sites[0], sites[1]
	each := func(do func(c, d *batch.Chunk, i int, addr uint32, f []byte)) {
		for k := range a.chunks {
			for i := range rekeyChunk {
				do(a.chunks[k], b.chunks[k], i, uint32(k*rekeyChunk+i)*umem.FrameSize+umem.DataOffset, frames[(k*rekeyChunk+i)%len(frames)])
			}
		}
	}
	each(func(c, _ *batch.Chunk, i int, addr uint32, f []byte) {
		copy(a.worker.umem[addr:], f)
		c.In[i] = batch.Frame{Addr: addr, Len: uint16(len(f)), Origin: batch.From(2)} // without partial checksums, so that the GPU classifies it
	})
	a.submit()
	each(func(c, d *batch.Chunk, i int, addr uint32, f []byte) {
		r := c.Out[i]
		wire := a.worker.umem[r.Addr():][:r.Len()]
		if r.Verdict != batch.Forward(1) || r.Len() <= uint16(len(f)) {
			t.Fatalf("sealed: %v, % x", r.Verdict, wire)
		}
		copy(b.worker.umem[addr:], wire)
		d.In[i] = batch.Frame{Addr: addr, Len: r.Len(), Origin: 1}
	})
	b.submit()
	each(func(_, d *batch.Chunk, i int, _ uint32, f []byte) {
		r := d.Out[i]
		if r.Verdict != batch.Forward(1) {
			t.Fatalf("opened: %v", r.Verdict)
		}
		if got, want := b.worker.umem[r.Addr():][:r.Len()][packet.EthernetLen:], testutil.Edit(f, 8, f[packet.EthernetLen+8]-2)[packet.EthernetLen:]; !bytes.Equal(got, want) {
			t.Fatalf("opened:\n  % x, should be\n  % x", got, want)
		}
		*packets++
	})
}

// TestGPUGatewayRecoversFromTimeout: sequence numbers of lost packets are not reused, and all packets
// are ESP, on both engines and after the recovery. A chunk that is lost in its first pass has taken no numbers.
func TestGPUGatewayRecoversFromTimeout(t *testing.T) {
	t.Run("jobs", func(t *testing.T) { recoversFromTimeout(t, false, 256) })
	t.Run("classification", func(t *testing.T) { recoversFromTimeout(t, true, 0) })
}

func recoversFromTimeout(t *testing.T, classify bool, lost int) {
	t.Helper()
	net := testutil.NewNetwork()
	g := &gateway.Gateway{}
	d := gatewaysOnGPU(t, net, Options{Timeout: 20 * time.Millisecond, Limit: 20 * time.Millisecond, Pause: 50 * time.Millisecond}, g).All[0]
	s := protectAll(t, net, g)
	w := workerOnGPU(t, d, net, g, 512, 1, 256)
	w.engine.traffic[0].classifying = findMode{on: classify, fixed: true}
	used := map[uint32]bool{}
	if n := sendAll(t, w, s, used); n != 256 || w.engine.Name() != "gpu" {
		t.Fatalf("%d packets sent by the %s", n, w.engine.Name())
	}
	m, block := w.engine.mailbox, w.engine.pool.kept
	stall(m, block)
	if n := sendAll(t, w, s, used); n != 0 {
		t.Errorf("%d packets forwarded after a GPU timeout", n)
	}
	if n := sendAll(t, w, s, used); n != 256 || w.engine.Name() != "cpu" {
		t.Errorf("%d packets sent by the %s", n, w.engine.Name())
	}
	c := batch.NewChunks(1, 256)[0]
	c.N = len(c.In)
	for i := range c.In {
		c.In[i] = batch.Frame{Addr: uint32(i)*umem.FrameSize + umem.DataOffset, Len: 100}
	}
	unstall(m, block, c)
	for start := time.Now(); w.engine.Name() != "gpu" && time.Since(start) < 5*time.Second; time.Sleep(10 * time.Millisecond) {
		if n := sendAll(t, w, s, used); n != 256 {
			t.Fatalf("%d packets sent", n)
		}
	}
	if n := sendAll(t, w, s, used); n != 256 || w.engine.Name() != "gpu" {
		t.Errorf("%d packets sent by the %s", n, w.engine.Name())
	}
	if s.Sequence() != uint64(len(used)+lost) {
		t.Errorf("sequence numbers up to %d were used for %d packets and %d lost ones", s.Sequence(), len(used), lost)
	}
}

func TestGPUOverwritesKeys(t *testing.T) {
	net := testutil.NewNetwork()
	g := &gateway.Gateway{}
	d := gatewaysOnGPU(t, net, Options{}, g).All[0]
	s := protectAll(t, net, g)
	held := func() (all []byte) {
		all = make([]byte, 4*keyBytes)
		require.NoError(t, d.ctx.Do(func() error { return d.ipsecTables.keys.Read(0, all) }))
		return all
	}
	at := int(s.KeyIndex()) * keyBytes
	if key := held()[at:][:keyBytes]; !bytes.Equal(key, s.DeviceKey().Bytes()) || binary.LittleEndian.Uint64(key) == 0 {
		t.Fatalf("the device has % x", key)
	}
	g.Remove(s)
	s.Zero()
	if key := held()[at:][:keyBytes]; !bytes.Equal(key, make([]byte, keyBytes)) {
		t.Errorf("the device still has % x", key)
	}
}
