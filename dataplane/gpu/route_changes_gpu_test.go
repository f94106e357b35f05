//go:build gpu

package gpu

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// changing is a base with a goroutine that changes routes as fast as possible: prefixes come and go,
// with reused next hops. A neighbor's address identifies the prefix.
type changing struct {
	base     *fib.FIB
	prefixes []netip.Prefix
	hops     []fib.NextHopID
	adj      []uint32
	changes  atomic.Int64
}

const nobodys = 0xffff // owner of the default route

func newChanging(t *testing.T, n int) *changing {
	c := &changing{base: fib.New(1), hops: make([]fib.NextHopID, n), adj: make([]uint32, n)}
	c.base.SetPort(0, 0x020000000001, 1500)
	for i := range n {
		c.prefixes = append(c.prefixes, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 64}), 26))
	}
	_, id := c.hop(t, nobodys)
	require.NoError(t, c.base.IPv4.Insert(netip.MustParsePrefix("0.0.0.0/0"), id))
	return c
}

func (c *changing) hop(t *testing.T, owner int) (uint32, fib.NextHopID) {
	adj := got(c.base.NewAdjacency(0))(t)
	c.base.SetAdjacency(adj, 0, fib.MAC(0x020100000000+owner))
	id := got(c.base.NewNextHop(fib.KindForward, fib.Path{Adjacency: adj, Weight: 1}))(t)
	return adj, id
}

func (c *changing) change(t *testing.T, rnd *rand.Rand) {
	i := rnd.IntN(len(c.prefixes))
	if c.hops[i] != 0 {
		c.base.IPv4.Delete(c.prefixes[i])
		c.base.FreeNextHop(c.hops[i])
		c.base.FreeAdjacency(c.adj[i])
		c.hops[i] = 0
	} else {
		c.adj[i], c.hops[i] = c.hop(t, i)
		require.NoError(t, c.base.IPv4.Insert(c.prefixes[i], c.hops[i]))
	}
	c.changes.Add(1)
}

// TestGPUChangesUnderLoad: beside 100,000 route changes per second no packet gets the next hop of
// another route. Finally the device's copy equals the FIB.
func TestGPUChangesUnderLoad(t *testing.T) {
	const prefixes = 2000
	for _, load := range []struct {
		name         string
		size, chunks int
	}{{"four large chunks", 1024, 4}, {"low latency", inlineFrames, 1}, {"low latency, three tiles", inlineTiles * inlineFrames, 1}} {
		mode, size, chunks := load.name, load.size, load.chunks
		c := newChanging(t, prefixes)
		d := got(openFirst(c.base, Options{Timeout: time.Second, PartialChecksums: make([]bool, 1), Shadow: 16}))(t)
		mem := got(umem.New(chunks * size))(t)
		all := batch.NewChunks(chunks, size)
		e := got(d.NewEngine(mem.Bytes(), chunks, size, cpu.New(c.base, mem.Bytes(), make([]bool, 1))))(t)
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() { // 130 changes per millisecond, as the ticker misses some
			defer close(stopped)
			rnd := rand.New(rand.NewPCG(1, 1))
			for tick := time.NewTicker(time.Millisecond); ; {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				for range 130 {
					c.change(t, rnd)
				}
				c.base.Commit()
			}
		}()
		frame := testutil.UDP4("192.0.2.1", "10.0.0.64", 1, 2, make([]byte, 20)...)
		reader, rnd := c.base.NewReader(), rand.New(rand.NewPCG(2, 2))
		packets, own, wrong := 0, 0, 0
		start := time.Now()
		check := func(ch *batch.Chunk) {
			for i, r := range ch.Out[:ch.N] {
				f := mem.Bytes()[ch.In[i].Addr:]
				owner := int(binary.BigEndian.Uint16(f[4:]))
				dst := binary.BigEndian.Uint32(f[packet.EthernetLen+16:])
				switch {
				case r.Verdict != batch.Forward(0) || owner != nobodys && owner != int(dst>>8&0xffff):
					wrong++
				case owner != nobodys:
					own++
				}
			}
			packets += ch.N
		}
		for round := 0; time.Since(start) < 3*time.Second; round++ {
			reader.Hold(reader.Now())
			for k, ch := range all {
				ch.N = size
				for i := range size {
					addr := uint32(k*size+i)*umem.FrameSize + umem.DataOffset
					f := mem.Bytes()[addr:]
					copy(f, frame)
					p := rnd.IntN(prefixes)
					f[packet.EthernetLen+17], f[packet.EthernetLen+18] = byte(p>>8), byte(p)
					f[packet.EthernetLen+10], f[packet.EthernetLen+11] = 0, 0
					binary.BigEndian.PutUint16(f[packet.EthernetLen+10:], packet.Checksum(f[packet.EthernetLen:packet.EthernetLen+packet.IPv4Len]))
					ch.In[i] = batch.Frame{Addr: addr, Len: uint16(len(frame))}
				}
				ch.Submitted = batch.Clock()
				e.Submit(ch)
			}
			for _, ch := range all {
				for !e.Done(ch) {
				}
				check(ch)
			}
			reader.Release()
		}
		elapsed := time.Since(start).Seconds()
		close(stop)
		<-stopped
		c.base.Commit()
		d.tables.patcher.drain()
		t.Logf("%s: %d packets, %d by their own route, beside %.0f changes/s; tables changed life %d times",
			mode, packets, own, float64(c.changes.Load())/elapsed, d.tables.generation.value)
		if wrong > 0 || own < packets/10 || own > packets*9/10 {
			t.Errorf("%s: %d of %d packets went astray, %d by their own route", mode, wrong, packets, own)
		}
		if rate := float64(c.changes.Load()) / elapsed; rate < 100_000 {
			t.Errorf("%s: only %.0f changes/s", mode, rate)
		}
		if err := d.Err(); err != nil {
			t.Errorf("%s: the device failed: %v", mode, err)
		}
		if err := d.Close(); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		mem.Close()
	}
}
