package dataplane_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/memport"
	"github.com/warproute/warproute/umem"
)

// A router with one worker and two ports in memory forwards one packet from port 0 to port 1.
func Example() {
	mem, _ := umem.New(8192)
	defer mem.Close()
	pool := umem.NewPool(mem)
	in, out := memport.New(0, mem, pool), memport.New(1, mem, pool)

	// The route 10.1.0.0/16 leaves by port 1, to a neighbor whose MAC address is known.
	table := fib.New(1)
	table.SetPort(0, 0x020000000001, 1500)
	table.SetPort(1, 0x020000000002, 1500)
	neighbor, _ := table.NewAdjacency(1)
	table.SetAdjacency(neighbor, 1, 0x0200000000aa)
	hop, _ := table.NewNextHop(fib.KindForward, fib.Path{Adjacency: neighbor, Weight: 1})
	if err := table.IPv4.Insert(netip.MustParsePrefix("10.1.0.0/16"), hop); err != nil {
		panic(err)
	}

	router, err := dataplane.New(dataplane.Config{
		FIB: table, Ports: 2, MaxPackets: 64, MaxDelay: 50 * time.Microsecond,
		Workers: []dataplane.WorkerConfig{{
			CPU: affinity.Any, Memory: mem, Pool: pool, Chunks: batch.NewChunks(2, 64),
			Engine: cpu.New(table, mem.Bytes(), make([]bool, 2)),
			Queues: [][]dataplane.Queue{{in}, {out}},
		}},
	})
	if err != nil {
		panic(err)
	}

	in.Play([][]byte{testutil.UDP4("192.0.2.1", "10.1.0.1", 1000, 2000)}, 1)
	done := make(chan struct{})
	out.Collect(func(frame []byte) {
		fmt.Printf("to %x, TTL %d, destination %v\n", frame[:6], frame[22], netip.AddrFrom4([4]byte(frame[30:])))
		close(done)
	})
	if err := router.Start(); err != nil {
		panic(err)
	}
	<-done
	router.Stop()
	fmt.Println(router.Stats().Ports[1].TxPackets, "packet transmitted")
	// Output:
	// to 0200000000aa, TTL 63, destination 10.1.0.1
	// 1 packet transmitted
}
