package cpu

import (
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/conformance"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/umem"
)

func TestConformance(t *testing.T) {
	net, err := conformance.NewNetwork()
	require.NoError(t, err)
	mem := make([]byte, umem.FrameSize)
	engine := New(net.FIB, mem, net.PartialChecksums)
	chunk := batch.NewChunks(1, 1)[0]
	for _, rule := range conformance.Rules() {
		if len(rule.Cases) == 0 {
			continue
		}
		t.Run(rule.Key, func(t *testing.T) {
			for _, c := range rule.Cases {
				n := copy(mem[umem.DataOffset:], c.Frame)
				chunk.In[0] = batch.Frame{Addr: umem.DataOffset, Len: uint16(n), Origin: batch.From(c.Port)}
				chunk.N, chunk.Out[0] = 1, batch.Result{Verdict: 0xffff}
				engine.Submit(chunk)
				r := chunk.Out[0]
				var sent []byte
				if r.Verdict.Action() == batch.ActionForward {
					sent = mem[r.Addr():][:r.Len()]
				}
				if err := c.JudgeEngine(net, r, mem[umem.DataOffset:][:n], sent); err != nil {
					t.Errorf("%s: %v", c.Name, err)
				}
			}
		})
	}
}
