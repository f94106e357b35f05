package esp_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/dataplane/lane"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// hostBench measures the host's part of IPsec on a device: chunks in flight, and a null device.
type hostBench struct {
	*world
	inner   [][]byte // packets of 64 bytes, one per flow
	of      []int    // the tunnel of each
	seq     []uint32 // by tunnel: of the last received packet
	spis    []uint32
	tunnels []uint32
	next    int // of inner
	chunks  []*batch.Chunk
	jobs    [][]esp.Job
	order   []int // the first packet of each chunk
	other   []uint64
	lanes   *lane.Classifier // nil: one lane
}

// evict evicts the private caches of the core.
func (h *hostBench) evict() {
	for i := 0; i < len(h.other); i += 8 {
		h.other[i]++
	}
}

const (
	hostChunk  = 224
	hostChunks = 4
	hostFlows  = 16384
	headersLen = 20 + 8 + 8 // of ESP by aes128gcm16 in IPv4
)

// newHostBench returns n tunnels of one direction, with policies of both, and with one lane or the default ones. Routed
// tunnels have XFRM interfaces.
func newHostBench(b *testing.B, d ipsec.Direction, n int, lanes, routed bool) *hostBench {
	h := &hostBench{world: newWorld(b), seq: make([]uint32, n), other: make([]uint64, 1<<18)}
	h.chunks = batch.NewChunks(hostChunks, hostChunk)
	for range hostChunks {
		h.jobs, h.order = append(h.jobs, make([]esp.Job, hostChunk)), append(h.order, 0)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	g := &gateway.Gateway{}
	var rules []gateway.Rule
	var sites [][2]netip.Prefix
	var interfaces []gateway.Interface
	for i := range n {
		c := config(d, false)
		if routed {
			c.IfID = uint32(i + 1)
			interfaces = append(interfaces, gateway.Interface{IfID: c.IfID, Up: true})
		}
		c.Name, c.SPI, c.ReplayWindow = fmt.Sprint(i), uint32(0x1000+i), 1024
		c.Tunnel = g.Tunnel(c.Name)
		s, err := ipsec.NewSA(c, 2)
		require.NoError(b, err)
		require.NoError(b, g.Add(s))
		src := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i)}), 24)
		dst := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(20 + rnd.IntN(80)), byte(rnd.Uint32()), byte(rnd.Uint32())}), 24)
		sites = append(sites, [2]netip.Prefix{src, dst})
		h.spis, h.tunnels = append(h.spis, c.SPI), append(h.tunnels, c.Tunnel)
		if routed && d == ipsec.Out {
			id, err := h.Net.NewNextHop(fib.KindNoPort, fib.Path{Adjacency: c.IfID, Weight: 1})
			require.NoError(b, err)
			h.Net.Route(id, dst.String())
		}
		if routed { // as strongSwan has them
			src, dst = netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		}
		rules = append(rules,
			gateway.Rule{Direction: d, IfID: c.IfID, Policy: policy.Policy{Src: src, Dst: dst, Action: policy.Protect, Target: c.Tunnel}},
			gateway.Rule{Direction: ipsec.In - d, IfID: c.IfID, Policy: policy.Policy{Src: dst, Dst: src, Action: policy.Protect, Target: c.Tunnel}})
	}
	g.SetInterfaces(interfaces)
	require.NoError(b, g.SetRules(rules))
	h.Engine.Secure(g, 0)
	if lanes {
		compiled, err := lane.Compile(lane.Default(), g)
		require.NoError(b, err)
		compiled.RouteBy(h.Net.FIB)
		h.lanes = compiled.NewClassifier()
	}
	within := func(p netip.Prefix) string {
		a := p.Addr().As4()
		a[3] = byte(rnd.Uint32())
		return netip.AddrFrom4(a).String()
	}
	perm := rnd.Perm(n)
	for i := range hostFlows {
		k := perm[i%n]
		h.inner = append(h.inner, testutil.UDP4(within(sites[k][0]), within(sites[k][1]), uint16(rnd.Uint32()), uint16(rnd.Uint32()), make([]byte, 64-28)...))
		h.of = append(h.of, k)
	}
	return h
}

// receive fills chunk i with the next packets, as ESP on request.
func (h *hostBench) receive(i int, sealed bool) {
	c := h.chunks[i]
	c.N, h.order[i] = hostChunk, h.next
	for j := range c.N {
		frame := uint32(i*hostChunk + j)
		addr := frame*umem.FrameSize + umem.DataOffset + frame%16*64 // spread over cache sets
		in := h.inner[h.next]
		f := h.Mem.Bytes()[addr:]
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
		c.In[j] = batch.Frame{Addr: addr, Len: uint16(size), Origin: 2}
		c.Out[j] = batch.Result{}
		h.next = (h.next + 1) % len(h.inner)
	}
}

// open is the null device for a chunk to decrypt.
func (h *hostBench) open(i int) {
	c := h.chunks[i]
	for j := range c.N {
		in := h.inner[(h.order[i]+j)%len(h.inner)]
		at := c.In[j].Addr + headersLen
		f := h.Mem.Bytes()[at:]
		copy(f, in)
		(*packet.IPv4)(f[packet.EthernetLen:]).DecrementTTL()
		c.Out[j], h.jobs[i][j].Admitted = batch.ForwardTo(1, at, uint16(len(in))), h.jobs[i][j].SA.IfID() == 0
	}
}

// begin returns the duration of Begin for chunk i, all of whose jobs are of one kind.
func (h *hostBench) begin(b *testing.B, i int, kind esp.JobKind) time.Duration {
	c, t := h.chunks[i], h.jobs[i]
	var lanes [hostChunk]uint8
	h.evict()
	from := time.Now()
	if h.lanes != nil {
		for at := 0; at < c.N; at += 64 {
			h.lanes.Prefetch(h.Mem.Bytes(), c.In[at:min(at+64, c.N)])
			h.lanes.Classify(h.Mem.Bytes(), c.In[at:min(at+64, c.N)], lanes[at:])
		}
		if lanes[7] != 1 {
			b.Fatal("an ESP packet is not in the last lane")
		}
	}
	jobs := h.Engine.ESP().Begin(c.In[:c.N], c.Out[:c.N], t, ipsec.NoKeyIndex)
	took := time.Since(from)
	if jobs != c.N || t[7].Kind != kind {
		b.Fatal(jobs, t[7].Kind)
	}
	return took
}

// unread returns the duration of the steps after a device has classified all packets of chunk i.
func (h *hostBench) unread(b *testing.B, i int, tunnels []uint32) time.Duration {
	c, t, stage := h.chunks[i], h.jobs[i], h.Engine.ESP()
	h.evict()
	from := time.Now()
	stage.BeginOpened(c.In[:c.N], c.Out[:c.N], t, gateway.MaxKeys)
	for j := range t {
		stage.Classified(&t[j], tunnels[h.of[(h.order[i]+j)%len(h.of)]], 64)
	}
	stage.Rest(c.In[:c.N], c.Out[:c.N], t, ipsec.NoKeyIndex)
	took := time.Since(from)
	if t[7].Kind != esp.Seal || !t[7].Unread {
		b.Fatalf("%+v", t[7])
	}
	return took
}

// finish returns the duration of Finish for chunk i.
func (h *hostBench) finish(b *testing.B, i int) time.Duration {
	c := h.chunks[i]
	h.open(i)
	h.evict()
	from := time.Now()
	h.Engine.ESP().Finish(c.In[:c.N], c.Out[:c.N], h.jobs[i])
	took := time.Since(from)
	if v := c.Out[7].Verdict; v != batch.Forward(1) {
		b.Fatal(v)
	}
	return took
}

// BenchmarkHostPart measures Begin and Finish per packet of 64 bytes: the median of all chunks. With lanes,
// the lanes of the packets are found before Begin, and counted as a part of it.
func BenchmarkHostPart(b *testing.B) {
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2]) / hostChunk
	}
	for _, v := range []struct {
		n             int
		lanes, routed bool
	}{{1, false, false}, {1, true, false}, {1000, false, false}, {1000, true, false}, {1, false, true}, {1, true, true}, {1000, false, true}, {1000, true, true}} {
		n, name := v.n, fmt.Sprintf("SAs=%d/lanes=%v", v.n, v.lanes)
		if v.routed {
			name += "/routed"
		}
		b.Run("seal/"+name, func(b *testing.B) {
			h := newHostBench(b, ipsec.Out, n, v.lanes, v.routed)
			var begin []time.Duration
			for i := 0; b.Loop(); i = (i + 1) % hostChunks {
				h.receive(i, false)
				begin = append(begin, h.begin(b, i, esp.Seal))
			}
			b.ReportMetric(median(begin), "ns/begin")
		})
		if !v.lanes && !v.routed {
			b.Run("unread/"+name, func(b *testing.B) {
				h := newHostBench(b, ipsec.Out, n, false, false)
				var took []time.Duration
				for i := 0; b.Loop(); i = (i + 1) % hostChunks {
					h.receive(i, false)
					took = append(took, h.unread(b, i, h.tunnels))
				}
				b.ReportMetric(median(took), "ns/unread")
			})
		}
		b.Run("open/"+name, func(b *testing.B) {
			h := newHostBench(b, ipsec.In, n, v.lanes, v.routed)
			var begin, finish []time.Duration
			for i := 0; b.Loop(); i = (i + 1) % hostChunks {
				if h.chunks[i].N > 0 {
					finish = append(finish, h.finish(b, i))
				}
				h.receive(i, true)
				begin = append(begin, h.begin(b, i, esp.Open))
			}
			b.ReportMetric(median(begin), "ns/begin")
			b.ReportMetric(median(finish), "ns/finish")
		})
	}
}
