package service

import (
	"bytes"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/memport"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// paced is a queue that receives at a constant rate.
type paced struct {
	*memport.Queue
	rate  float64 // packets a second
	start time.Time
	given int
	ended atomic.Bool
}

func (q *paced) Receive(dst []batch.Frame) int {
	due := int(time.Since(q.start).Seconds()*q.rate) - q.given
	if q.ended.Load() || due <= 0 {
		return 0
	}
	n := q.Queue.Receive(dst[:min(due, len(dst))])
	q.given += n
	return n
}

// bench is a gateway with a worker, between a site (port 0) and its peers (port 1).
type bench struct {
	t            *testing.T
	ipsecGateway *ipsecGateway
	router       *dataplane.Router
	fib          *fib.FIB
	queues       [2]*paced
}

func newBench(t *testing.T, collect [2]func([]byte)) *bench {
	b := &bench{t: t, fib: fib.New(1)}
	mem, err := umem.New(3 * 2048)
	require.NoError(t, err)
	chunks := batch.NewChunks(2, 256)
	t.Cleanup(func() { mem.Close() })
	pool := umem.NewPool(mem)
	var queues [][]dataplane.Queue
	for port, networks := range [][]string{{"10.7.0.0/16"}, {"0.0.0.0/0"}} {
		q := memport.New(uint16(port), mem, pool)
		q.Collect(collect[port])
		b.queues[port] = &paced{Queue: q, rate: 20_000}
		queues = append(queues, []dataplane.Queue{b.queues[port]})
		b.fib.SetPort(uint16(port), fib.MAC(0x020000000000+uint64(port)), 1500)
		adjacency, err := b.fib.NewAdjacency(uint16(port))
		require.NoError(t, err)
		b.fib.SetAdjacency(adjacency, uint16(port), 0x0200000000aa)
		hop, err := b.fib.NewNextHop(fib.KindForward, fib.Path{Adjacency: adjacency, Weight: 1})
		require.NoError(t, err)
		for _, n := range networks {
			require.NoError(t, b.fib.IPv4.Insert(netip.MustParsePrefix(n), hop))
		}
	}
	first := generation(0)
	first.State = t.TempDir()
	b.ipsecGateway, err = newIPsecGateway(first, 1, b.fib.Passed)
	require.NoError(t, err)
	engine := cpu.New(b.fib, mem.Bytes(), make([]bool, 2))
	engine.Secure(b.ipsecGateway.gateway, 0)
	b.router, err = dataplane.New(dataplane.Config{
		FIB: b.fib, Ports: 2, MaxPackets: 256, MaxDelay: 50 * time.Microsecond,
		Workers: []dataplane.WorkerConfig{{CPU: affinity.Any, Memory: mem, Pool: pool, Engine: engine, Chunks: chunks, Queues: queues}},
	})
	require.NoError(t, err)
	t.Cleanup(b.router.Stop)
	return b
}

// fromPeers returns count packets per tunnel, round-robin, with the keys of generation 0.
func fromPeers(t *testing.T, count int) (frames [][]byte) {
	var peers []*ipsec.SA
	for i := range staying + changing {
		s, err := ipsec.NewSA(ipsec.Config{SPI: tunnelSPI(i, 0) | 1<<24, Src: netip.MustParseAddr("192.0.2.2"), Dst: netip.MustParseAddr("192.0.2.1"),
			Suite: "aes128gcm16", Key: tunnelKey(i, 0)}, 1)
		require.NoError(t, err)
		peers = append(peers, s)
	}
	for range count {
		for i, s := range peers {
			inner := testutil.UDP4(fmt.Sprintf("10.8.%d.%d", i>>8, i&255), "10.7.0.1", 1, 2)
			buf := make([]byte, 512)
			copy(buf[128:], inner[packet.EthernetLen:])
			at, n, e := s.Encapsulate(0, buf, 128, len(inner)-packet.EthernetLen)
			if e != ipsec.OK {
				t.Fatal(e)
			}
			frames = append(frames, append(bytes.Clone(inner[:packet.EthernetLen]), buf[at:at+n]...))
		}
	}
	return frames
}
