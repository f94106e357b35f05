package gpu

import (
	"bytes"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/umem"
)

// A device that was given up may come to a packet when its association has ended, and has no key
// at the number then, or another's, of any suite, direction and length. What becomes of the
// packet is of no interest, as its frame stays away; but nothing else is touched.
func TestGatewayCodeOutlivesAssociations(t *testing.T) {
	for _, stage := range []int{minStage / 4, 3900} {
		w := newSecuredTwins(t, securedOnHost(stage), 8)
		e, d := w.gpu.engine, w.chunks[1]
		launch := e.launch
		e.launch = func(slot int, seq uint32, n int) error {
			for i := range n {
				if j := &e.securer.jobs.slots[slot][i]; e.securer.tasks[slot][i].Kind >= cpu.Seal {
					j.Key = j.Key>>jobLines<<jobLines | uint32(w.rnd.IntN(shimKeys)) // two thirds of these have keys
				}
			}
			before := bytes.Clone(w.gpu.umem)
			err := launch(slot, seq, n)
			for _, f := range d.In[:n] {
				copy(before[f.Addr:], w.gpu.umem[f.Addr:][:f.Len])
			}
			if !bytes.Equal(before, w.gpu.umem) {
				t.Error("memory around packets was written to")
			}
			for i := range n {
				e.mail.slots[slot].results[i] = batch.Result{Len: cpu.Forged, Verdict: batch.Drop(batch.XfrmInStateProtoError)}
			}
			return err
		}
		for range 5 {
			d.N = securedChunk
			for i := range d.N {
				f := w.next()
				d.In[i] = batch.Frame{Addr: uint32(i)*umem.FrameSize + umem.DataOffset, Len: uint16(len(f))}
				copy(w.gpu.umem[d.In[i].Addr:], f)
			}
			d.Submitted = batch.Clock()
			e.Submit(d)
			for !e.Done(d) {
			}
		}
	}
}
