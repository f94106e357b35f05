package afxdp_test

import (
	"log"
	"net/netip"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/umem"
)

// One worker forwards every frame of eth1 to eth2, except frames to the host. It needs root and two
// interfaces with one queue each.
func Example() {
	mem, err := umem.New(2 * afxdp.FramesPerQueue(afxdp.DefaultRingSize))
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	ports, err := afxdp.Open(afxdp.Config{
		Ports:   []afxdp.PortConfig{{Interface: "eth1"}, {Interface: "eth2"}},
		Workers: []afxdp.WorkerMemory{{Memory: mem, Pool: umem.NewPool(mem)}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer ports.Close()
	if err := ports.AddLocal(netip.MustParseAddr("192.0.2.1")); err != nil { // frames to it go to Linux
		log.Fatal(err)
	}
	if err := ports.Admit(); err != nil { // from now on, the others go to the sockets
		log.Fatal(err)
	}
	in, out := ports.Ports[0].Queues(0)[0], ports.Ports[1].Queues(0)[0]
	frames := make([]batch.Frame, 64)
	for {
		in.Refill()
		n := in.Receive(frames)
		out.Transmit(frames[:n]) // real code puts frames that are not taken back into the pool
		out.Reclaim()
	}
}
