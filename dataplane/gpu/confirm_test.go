package gpu

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// TestChunksAreConfirmedInOrder: of chunks that the GPU has finished before the host looks, the numbers are confirmed in the order
// of packets, also with a window smaller than a chunk. Of a number that arrives twice, the first packet is accepted. One of the chunks has
// packets with jobs, or one that is the host's.
func TestChunksAreConfirmedInOrder(t *testing.T) {
	const size, count = 100, 4
	const odd, twice = 30, 70 // in each chunk: a packet with a job, if it has one, and a packet with the number of the one before it
	for chunk := range count + 1 {
		for _, v := range []struct {
			name            string
			from, to, every int // these packets are not admitted, one in so many
			window, share   int
			host            bool
		}{
			{"one not admitted", odd, odd + 1, 1, 1, othersShare, false},
			{"one not admitted", odd, odd + 1, 1, 32, othersShare, false},
			{"many not admitted", 2, size, 4, 32, othersShare, false},
			{"a run not admitted", 5, 65, 1, 32, 0, false},
			{"one of the host", odd, odd + 1, 1, 1024, othersShare, true}, // it is confirmed after its chunk
		} {
			t.Run(fmt.Sprintf("%s in chunk %d, window %d", v.name, chunk, v.window), func(t *testing.T) {
				net, g := testutil.NewNetwork(), &gateway.Gateway{}
				sender, receiver := receivingTunnel(t, g, v.window)
				receiver.SetKeyIndex(0, nil) // like a device
				mem := mapMemory(t, count*size*umem.FrameSize)
				e := newIPsecEngine(t, net, g, mem, 64, size, maxKeys, Options{Timeout: time.Minute})
				e.fakeGPU, e.othersShare = func(*flight) {}, v.share
				chunks := batch.NewChunks(count, size)
				for k, c := range chunks {
					receiveESP(t, sender, mem, c, k)
					e.traffic[0].finding = findMode{on: true, fixed: true}
					e.Submit(c)
				}
				const inner = uint32(packet.IPv4Len + 8 + 8)
				for k := range e.inFlight { // the GPU finishes all
					f := &e.inFlight[k]
					for tile := range f.tiles {
						s, first := &e.mailbox.slots[f.slots[tile]], f.tileStart(tile)
						for i := first; i < f.tileStart(tile+1); i++ {
							in, number := f.chunk.In[i], k*size+i+1
							if i == twice {
								number--
							}
							admitted := uint32(esp.Admitted)
							if k == chunk && i >= v.from && i < v.to && i%v.every == v.from%v.every {
								admitted = 0
							}
							s.results[i-first] = batch.ForwardTo(1, in.Addr+inner+admitted, packet.EthernetLen+packet.IPv4Len+8+60)
							s.saReports()[i-first] = esp.SAReport(number)<<32 | esp.SAReport(receiver.KeyIndex())
							switch {
							case admitted == 0 && v.host:
								s.results[i-first] = batch.Result{Verdict: resultHost}
							case admitted == 0:
								copy(mem[in.Addr+inner:], testutil.UDP4("203.0.113.5", "10.1.0.9", 1, 2, make([]byte, 60)...))
							}
						}
						s.report()
					}
				}
				for k, c := range chunks {
					if k == chunk && v.host { // its last pass
						e.Done(c)
						f := &e.inFlight[0]
						if f.pass != lastPass || f.jobs[odd].Kind != esp.Open || f.jobs[twice].Kind != esp.Decided {
							t.Fatalf("pass %d, job %+v", f.pass, f.jobs[odd])
						}
						opened := slices.Clone(c.In[odd : odd+1])
						e.esp.Repeat(mem, opened, make([]batch.Result, 1), f.jobs[odd:odd+1]) // decrypts, as the device does
						for tile := range f.tiles {
							s, first := &e.mailbox.slots[f.slots[tile]], f.tileStart(tile)
							if odd >= first && odd < f.tileStart(tile+1) {
								s.results[odd-first] = batch.ForwardTo(1, opened[0].Addr, opened[0].Len)
							}
							s.report()
						}
					}
					if !e.Done(c) {
						t.Fatalf("chunk %d is not done", k)
					}
					for i, r := range c.Out {
						want := batch.Forward(1)
						if i == twice {
							want = batch.Drop(batch.XfrmInStateSeqError)
						}
						if r.Verdict != want {
							t.Fatalf("packet %d of chunk %d: %v, want %v", i, k, r.Verdict, want)
						}
					}
				}
				if n := receiver.Stats(); n.Packets != count*(size-1) || n.Replays != count || receiver.Usable(ipsec.In) != ipsec.OK {
					t.Errorf("%+v", n)
				}
			})
		}
	}
}
