package cpu

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/testutil"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// halves is what is left to the host of a gateway whose packets a device seals and opens:
// chunks on their way, and what stands in for the device, which takes no time.
type halves struct {
	*world
	inner  [][]byte // packets of 64 bytes, each of another flow
	of     []int    // the tunnel of each
	seq    []uint32 // by tunnel: of the last packet that arrived
	spis   []uint32
	next   int // of inner
	chunks []*batch.Chunk
	tasks  [][]Task
	order  []int // the first packet of each chunk
	other  []uint64
}

// away has all that is needed leave the caches that are a core's own, as where a device and other
// workers write.
func (h *halves) away() {
	for i := 0; i < len(h.other); i += 8 {
		h.other[i]++
	}
}

const (
	halvesChunk  = 224
	halvesChunks = 4
	halvesFlows  = 16384
	headersLen   = 20 + 8 + 8 // of ESP by aes128gcm16 in IPv4
)

// newHalves makes n tunnels of one direction, in a gateway with the policies of both.
func newHalves(b *testing.B, d esp.Direction, n int) *halves {
	h := &halves{world: newWorld(b), seq: make([]uint32, n), other: make([]uint64, 1<<18)}
	slab, err := batch.NewSlab(halvesChunks, halvesChunk)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { slab.Close() })
	h.chunks = slab.Chunks
	for range halvesChunks {
		h.tasks, h.order = append(h.tasks, make([]Task, halvesChunk)), append(h.order, 0)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	g := &gateway.Gateway{}
	var rules []gateway.Rule
	var sites [][2]netip.Prefix
	for i := range n {
		c := config(d, false)
		c.Name, c.SPI, c.ReplayWindow = fmt.Sprint(i), uint32(0x1000+i), 1024
		c.Bundle = g.Bundle(c.Name)
		s, err := esp.NewSA(c, 2)
		if err != nil {
			b.Fatal(err)
		}
		if err := g.Add(s); err != nil {
			b.Fatal(err)
		}
		src := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i)}), 24)
		dst := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(20 + rnd.IntN(80)), byte(rnd.Uint32()), byte(rnd.Uint32())}), 24)
		sites = append(sites, [2]netip.Prefix{src, dst})
		h.spis = append(h.spis, c.SPI)
		rules = append(rules,
			gateway.Rule{Direction: d, Policy: policy.Policy{Src: src, Dst: dst, Action: policy.Protect, Target: c.Bundle}},
			gateway.Rule{Direction: esp.In - d, Policy: policy.Policy{Src: dst, Dst: src, Action: policy.Protect, Target: c.Bundle}})
	}
	if err := g.SetRules(rules); err != nil {
		b.Fatal(err)
	}
	h.engine.Secure(g, 0)
	within := func(p netip.Prefix) string {
		a := p.Addr().As4()
		a[3] = byte(rnd.Uint32())
		return netip.AddrFrom4(a).String()
	}
	perm := rnd.Perm(n)
	for i := range halvesFlows {
		k := perm[i%n]
		h.inner = append(h.inner, testutil.UDP4(within(sites[k][0]), within(sites[k][1]), uint16(rnd.Uint32()), uint16(rnd.Uint32()), make([]byte, 64-28)...))
		h.of = append(h.of, k)
	}
	return h
}

// receive fills chunk i with the next packets, as they arrive: sealed, if the tunnels are inbound.
func (h *halves) receive(i int, sealed bool) {
	c := h.chunks[i]
	c.N, h.order[i] = halvesChunk, h.next
	for j := range c.N {
		frame := uint32(i*halvesChunk + j)
		addr := frame*umem.FrameSize + umem.DataOffset + frame%16*64 // else all would share a few sets of the caches
		in := h.inner[h.next]
		f := h.mem.Bytes()[addr:]
		size := len(in)
		if sealed {
			k := h.of[h.next]
			h.seq[k]++
			copy(f, in[:packet.EthernetLen])
			p := f[packet.EthernetLen:]
			size += headersLen + 8 + 4 + 16 - 8
			copy(p[:20], []byte{0x45, 0, 0, byte(size - packet.EthernetLen), 0, 0, 0, 0, 64, 50, 0, 0, 198, 51, 100, 1, 10, 1, 9, 9})
			binary.BigEndian.PutUint16(p[10:], packet.Checksum(p[:20]))
			binary.BigEndian.PutUint32(p[20:], h.spis[k])
			binary.BigEndian.PutUint32(p[24:], h.seq[k])
		} else {
			copy(f, in)
		}
		c.In[j] = batch.Frame{Addr: addr, Len: uint16(size), Port: 2}
		c.Out[j] = batch.Result{}
		h.next = (h.next + 1) % len(h.inner)
	}
}

// open does what a device does to a chunk that was to be opened.
func (h *halves) open(i int) {
	c := h.chunks[i]
	for j := range c.N {
		in := h.inner[(h.order[i]+j)%len(h.inner)]
		at := c.In[j].Addr + headersLen
		f := h.mem.Bytes()[at:]
		copy(f, in)
		(*packet.IPv4)(f[packet.EthernetLen:]).DecrementTTL()
		c.Out[j] = batch.Result{Addr: at, Len: uint16(len(in)), Verdict: batch.Forward(1)}
	}
}

// begin returns how long the part before the device takes for chunk i, all of it of a kind.
func (h *halves) begin(b *testing.B, i int, kind TaskKind) time.Duration {
	c, t := h.chunks[i], h.tasks[i]
	h.away()
	from := time.Now()
	jobs := h.engine.Begin(c.In[:c.N], c.Out[:c.N], t, esp.NoNumber)
	took := time.Since(from)
	if jobs != c.N || t[7].Kind != kind {
		b.Fatal(jobs, t[7].Kind)
	}
	return took
}

// finish returns how long the part behind the device takes, which has opened chunk i.
func (h *halves) finish(b *testing.B, i int) time.Duration {
	c := h.chunks[i]
	h.open(i)
	h.away()
	from := time.Now()
	h.engine.Finish(c.In[:c.N], c.Out[:c.N], h.tasks[i])
	took := time.Since(from)
	if v := c.Out[7].Verdict; v != batch.Forward(1) {
		b.Fatal(v)
	}
	return took
}

// What a packet of 64 bytes costs the host where a device seals and opens: the median chunk's
// part before the device, and behind it.
func BenchmarkHalf(b *testing.B) {
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2]) / halvesChunk
	}
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("seal/SAs=%d", n), func(b *testing.B) {
			h := newHalves(b, esp.Out, n)
			var begin []time.Duration
			for i := 0; b.Loop(); i = (i + 1) % halvesChunks {
				h.receive(i, false)
				begin = append(begin, h.begin(b, i, Seal))
			}
			b.ReportMetric(median(begin), "ns/begin")
		})
		b.Run(fmt.Sprintf("open/SAs=%d", n), func(b *testing.B) {
			h := newHalves(b, esp.In, n)
			var begin, finish []time.Duration
			for i := 0; b.Loop(); i = (i + 1) % halvesChunks {
				if h.chunks[i].N > 0 {
					finish = append(finish, h.finish(b, i))
				}
				h.receive(i, true)
				begin = append(begin, h.begin(b, i, Open))
			}
			b.ReportMetric(median(begin), "ns/begin")
			b.ReportMetric(median(finish), "ns/finish")
		})
	}
}
