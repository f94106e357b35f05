package gpu

import (
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/conformance"
	"github.com/warproute/warproute/umem"
)

// TestConformance runs the conformance rules through the kernels' code, a chunk per rule.
func TestConformance(t *testing.T) {
	net := got(conformance.NewNetwork())(t)
	const most = 64
	s := newShim(t, net.FIB, net.PartialChecksums, most, most*umem.FrameSize)
	for _, rule := range conformance.Rules() {
		if len(rule.Cases) == 0 {
			continue
		}
		t.Run(rule.Key, func(t *testing.T) {
			if len(rule.Cases) > most {
				t.Fatalf("more than %d packets", most)
			}
			for i, c := range rule.Cases {
				at := uint32(i)*umem.FrameSize + umem.DataOffset
				n := copy(s.umem[at:], c.Frame)
				s.in[i] = batch.Frame{Addr: at, Len: uint16(n), Origin: batch.From(c.Port)}
				s.out[i] = batch.Result{Verdict: 0xffff}
			}
			s.submit(len(rule.Cases))
			for i, c := range rule.Cases {
				r := s.out[i]
				var sent []byte
				if r.Verdict.Action() == batch.ActionForward {
					sent = s.umem[r.Addr():][:r.Len()]
				}
				if err := c.JudgeEngine(net, r, s.umem[s.in[i].Addr:][:s.in[i].Len], sent); err != nil {
					t.Errorf("%s: %v", c.Name, err)
				}
			}
		})
	}
}
