package gpu

import (
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/packet"
)

// submitUnread submits chunk k for a first pass in which the device classifies packets, and reports it with a result
// for each packet, by its place in the chunk.
func (r *passesRig) submitUnread(k int, result func(i int, f batch.Frame) batch.Result) *flight {
	f := r.submitWith(k, findMode{fixed: true}, findMode{on: true, fixed: true})
	if f.pass != firstPass || f.passFlags != classifyFlag {
		r.Fatalf("chunk %d has pass %d with flags %#x", k, f.pass, f.passFlags)
	}
	for t := range f.tiles {
		s := &r.e.mailbox.slots[f.slots[t]]
		for i := f.tileStart(t); i < f.tileStart(t+1); i++ {
			s.results[i-f.tileStart(t)] = result(i, f.chunk.In[i])
		}
		s.report()
	}
	return f
}

// protect is the device's result of a packet that it has classified correctly.
func protect(tunnel uint32, f batch.Frame) batch.Result {
	r := batch.ForwardTo(0, tunnel, f.Len-packet.EthernetLen)
	r.Verdict = resultNeedsSeq
	return r
}

// TestClassifiedPacketsTakeNumbersInOrder: sequence numbers ascend in the order of packets, whether the device has
// classified them or the host reads them.
func TestClassifiedPacketsTakeNumbersInOrder(t *testing.T) {
	r := newPassesRig(t, 4, 3)
	last := uint64(0)
	for k, c := range r.chunks {
		f := r.submitUnread(k, func(i int, f batch.Frame) batch.Result {
			if i%3 == k {
				return forHost
			}
			return protect(r.sa.Tunnel(), f)
		})
		r.e.Done(c)
		for i := range c.N {
			job := &f.jobs[i]
			if job.Kind != esp.Seal || job.Unread == (i%3 == k) || job.Seq != last+1 {
				t.Fatalf("chunk %d, packet %d after number %d: %+v", k, i, last, job)
			}
			last = job.Seq
		}
		r.finish(f, forHost)
		if !r.e.Done(c) || c.Out[0].Verdict != batch.Forward(1) || c.Out[k].Verdict != batch.Forward(1) {
			t.Fatalf("chunk %d: verdicts %v and %v", k, c.Out[0].Verdict, c.Out[k].Verdict)
		}
	}
	if stats := r.sa.Stats(); stats.Packets != 3*16 || stats.Bytes != 3*16*128 {
		t.Errorf("%+v after 48 packets of 128 bytes", stats)
	}
}

// TestUnusableClassificationsAreTheHosts: if a device names a tunnel that does not exist, or a length that the frame does not
// have, the host reads the packet and encrypts it by its policies.
func TestUnusableClassificationsAreTheHosts(t *testing.T) {
	for name, result := range map[string]func(sa uint32, f batch.Frame) batch.Result{
		"no such tunnel": func(_ uint32, f batch.Frame) batch.Result { return protect(1<<20-1, f) },
		"too long":       func(sa uint32, f batch.Frame) batch.Result { f.Len++; return protect(sa, f) },
		"longest":        func(sa uint32, f batch.Frame) batch.Result { f.Len = 1<<16 - 1; return protect(sa, f) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newPassesRig(t, 4, 1)
			f := r.submitUnread(0, func(_ int, f batch.Frame) batch.Result { return result(r.sa.Tunnel(), f) })
			r.e.Done(r.chunks[0])
			for i := range f.jobs {
				if job := &f.jobs[i]; job.Kind != esp.Seal || job.Unread || job.Seq != uint64(i+1) {
					t.Fatalf("packet %d: %+v", i, job)
				}
			}
		})
	}
}

// TestImpossibleClassificationsAreRefused: in a first pass without SA lookup, a device forwards nothing.
func TestImpossibleClassificationsAreRefused(t *testing.T) {
	for name, result := range map[string]batch.Result{"forwarded": batch.ForwardTo(1, 64, 100), "no result": {}, "dropped": batch.DropFor(batch.NoRoute)} {
		t.Run(name, func(t *testing.T) {
			r := newPassesRig(t, 4, 1)
			r.submitUnread(0, func(int, batch.Frame) batch.Result { return result })
			if await(r.e, r.chunks[0]); r.chunks[0].Out[0].Verdict != batch.Drop(batch.GPUBadResult) || r.e.state.ok() {
				t.Errorf("verdict %v, device out of use: %v", r.chunks[0].Out[0].Verdict, !r.e.state.ok())
			}
		})
	}
}
