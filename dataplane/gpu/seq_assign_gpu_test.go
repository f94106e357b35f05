//go:build gpu

package gpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// TestGPUNumbersPackets: packets of all kinds of SAs, of which the GPU takes the sequence numbers.
func TestGPUNumbersPackets(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 60
	}
	agreeOnAssigned(t, func(t *testing.T, net *testutil.Network, g *gateway.Gateway) secured {
		return openSecured(t, net, g, Options{})
	}, rounds)
}

// protectPorts returns the SAs of a number of tunnels, each for UDP packets to a port from outPort on.
func protectPorts(t *testing.T, g *gateway.Gateway, workers, tunnels int) (all []*ipsec.SA) {
	t.Helper()
	any := netip.MustParsePrefix("0.0.0.0/0")
	var rules []gateway.Rule
	for k := range tunnels {
		s, err := ipsec.NewSA(ipsec.Config{
			SPI: 0x1000 + uint32(k), Src: netip.MustParseAddr("198.51.100.1"), Dst: far4, Suite: "aes128gcm16", Key: make([]byte, 20), Tunnel: g.Tunnel(fmt.Sprint(k)),
		}, workers)
		require.NoError(t, err)
		require.NoError(t, g.Add(s))
		all = append(all, s)
		rules = append(rules, gateway.Rule{Direction: ipsec.Out, Policy: policy.Policy{Src: any, Dst: any, Protocol: 17, DstPorts: policy.Port(uint16(outPort + k)), Action: policy.Protect, Target: s.Tunnel()}})
	}
	require.NoError(t, g.SetRules(rules))
	return all
}

// TestGPUNumbersPacketsOfManyWorkers: workers, on all GPUs of the host, share SAs, leave some packets to the host, and take back loans
// meanwhile. No number is used twice, and those of a worker ascend, on all blocks and on a few, behind whose tiles others queue, and if the GPU
// fails whose memory has the numbers.
func TestGPUNumbersPacketsOfManyWorkers(t *testing.T) {
	const workers, chunks, size, sas = 6, 8, 256, 40
	const few = 24    // blocks
	queuedBehind := 0 // chunks, on few blocks
	for name, c := range map[string]struct {
		others, blocks int
		fails          bool
	}{
		"few packets by the host": {2000, shortBlocks(), false}, "many packets by the host": {40, shortBlocks(), false},
		"few packets by the host, few blocks": {2000, few, false}, "many packets by the host, few blocks": {40, few, false},
		"the home fails": {2000, shortBlocks(), true},
	} {
		others, fails := c.others, c.fails
		t.Run(name, func(t *testing.T) {
			net, g := testutil.NewNetwork(), &gateway.Gateway{}
			devices := got(OpenAll(net.FIB, Options{Timeout: 10 * time.Second, blocks: c.blocks, Gateway: g, PartialChecksums: net.PartialChecksums, Workers: workers}))(t)
			defer func() { require.NoError(t, devices.Close()) }()
			lender := devices.All[0].kernel.lender
			lender.weighEvery = 1 << 60 // loans end by the test only
			all := protectPorts(t, g, workers, sas)
			var mu sync.Mutex
			var used []uint64 // sequence numbers, behind SPIs
			byHost, queued := 0, 0
			var group sync.WaitGroup
			for n := range workers {
				mem := got(umem.New(chunks * size))(t)
				fallback := cpu.New(net.FIB, mem.Bytes(), net.PartialChecksums)
				fallback.Secure(g, n)
				w := secured{mem.Bytes(), got(devices.NewEngine(mem.Bytes(), chunks, size, fallback))(t), nil}
				group.Go(func() {
					rnd := rand.New(rand.NewPCG(uint64(n), 7))
					numbers, list := &seqsOf{T: t, last: map[uint32]uint32{}}, batch.NewChunks(chunks, size)
					odd, mine, host, behind := make([]bool, chunks*size), make([]uint64, 0, 16<<20), 0, 0
					submit := func(k int) {
						c := list[k]
						for i := range c.In {
							addr := uint32(k*size+i)*umem.FrameSize + umem.DataOffset
							f := testutil.UDP4("192.0.2.1", "10.1.0.1", 9, uint16(outPort+rnd.IntN(sas)), make([]byte, rnd.IntN(300))...)
							if odd[k*size+i] = rnd.IntN(others) == 0; odd[k*size+i] { // the device takes aligned frames only
								addr++
							}
							copy(w.umem[addr:], f)
							c.In[i] = batch.Frame{Addr: addr, Len: uint16(len(f)), Origin: batch.From(2)}
						}
						c.N, c.Submitted = size, batch.Clock()
						w.engine.Submit(c)
						if f := &w.engine.inFlight[len(w.engine.inFlight)-1]; f.placement == ExecutedOnGPU && w.engine.mailbox.slots[f.slots[0]].block.used > 1 {
							behind++
						}
					}
					for k := range chunks {
						submit(k)
					}
					for start, k := time.Now(), 0; time.Since(start) < 2*time.Second && !t.Failed(); k = (k + 1) % chunks {
						c := list[k]
						for !w.engine.Done(c) {
						}
						numbers.check(w.umem, c, none)
						for i, f := range c.In[:c.N] {
							if fails && c.Out[i].Verdict == batch.Lost { // its number was lent when the home failed
								continue
							}
							p := w.umem[f.Addr:][packet.EthernetLen:f.Len]
							spi, at, is := ipsec.Inbound(p)
							if c.Out[i].Verdict != batch.Forward(1) || !is {
								t.Errorf("worker %d, packet %d: %v", n, i, c.Out[i].Verdict)
								break
							}
							mine = append(mine, uint64(spi)<<32|uint64(binary.BigEndian.Uint32(p[at+4:])))
							if odd[k*size+i] {
								host++
							}
						}
						if rnd.IntN(50) == 0 {
							all[rnd.IntN(sas)].EndLoan()
						}
						submit(k)
					}
					for k := range chunks {
						await(w.engine, list[k])
					}
					mu.Lock()
					defer mu.Unlock()
					used, byHost, queued = append(used, mine...), byHost+host, queued+behind
				})
			}
			if fails {
				time.Sleep(time.Second)
				devices.All[0].state.fail(errors.New("test"))
			}
			group.Wait()
			slices.Sort(used)
			for i := 1; i < len(used); i++ {
				if used[i] == used[i-1] {
					t.Fatalf("number %#x is used twice", used[i])
				}
			}
			for _, d := range devices.All[1:] {
				if s := d.State(); d.ipsecTables.lender != lender || s.ByGPU == 0 || s.Timeouts > 0 {
					t.Errorf("GPU %d: it shares numbers: %v; %d chunks, %d timeouts", s.Number, d.ipsecTables.lender == lender, s.ByGPU, s.Timeouts)
				}
			}
			numbered := int(lender.assigned.Load())
			if t.Logf("%d GPUs: %d numbers, %d of them by the device; %d packets only the host could seal; %d chunks queued", len(devices.All), len(used), numbered, byHost, queued); !fails && numbered < len(used)*others/40_000 || numbered == 0 || byHost == 0 {
				t.Error("too few")
			}
			if c.blocks == few {
				queuedBehind += queued
			}
		})
	}
	if queuedBehind == 0 { // with few packets by the host, it depends on the host's speed
		t.Error("no chunk queued")
	}
}
