package gpu

import (
	"bytes"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/umem"
)

// TestGatewayCodeSurvivesDeletedKeys: a device may process an abandoned packet after the deletion of
// its SA, with no key or another SA's key of any suite, direction and length. The withheld frame may
// change, and nothing else.
func TestGatewayCodeSurvivesDeletedKeys(t *testing.T) {
	for _, stage := range []int{minStagingBytes / 4, 3900} {
		w := newSecuredTwins(t, securedOnHost(stage), 8)
		e, d := w.gpu.engine, w.chunks[1]
		work := e.fakeGPU
		e.fakeGPU = func(f *flight) {
			for k := range f.tiles {
				jobs := e.mailbox.slots[f.slots[k]].jobs
				for i := f.tileStart(k); i < f.tileStart(k+1) && f.jobs != nil; i++ {
					if j := &jobs[i-f.tileStart(k)]; f.jobs[i].Kind >= esp.Seal {
						j.Key = j.Key>>jobKeySegmentsShift<<jobKeySegmentsShift | uint32(w.rnd.IntN(shimKeys)) // two thirds of them have keys
					}
				}
			}
			before := bytes.Clone(w.gpu.umem)
			work(f)
			for _, f := range d.In[:d.N] {
				copy(before[f.Addr:], w.gpu.umem[f.Addr:][:f.Len])
			}
			if !bytes.Equal(before, w.gpu.umem) {
				t.Error("memory around packets was written to")
			}
			eachPacket(e, f, func(_ int, r *batch.Result, _ esp.Job) { *r = batch.DropICVFailure() })
		}
		for range 5 {
			d.N = securedChunk
			for i := range d.N {
				f := w.next()
				d.In[i] = batch.Frame{Addr: uint32(i)*umem.FrameSize + umem.DataOffset, Len: uint16(len(f))}
				copy(w.gpu.umem[d.In[i].Addr:], f)
			}
			d.Submitted = batch.Clock()
			process(e, d)
		}
	}
}
