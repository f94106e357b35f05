package gpu

import (
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/ipsec"
)

// TestEnginesAgreeOnXFRMInterfaces passes packets of policy-based and route-based tunnels through both engines. The
// device admits no packet of an SA with an if_id, whose policies it does not have.
func TestEnginesAgreeOnXFRMInterfaces(t *testing.T) {
	packets := 10_000
	if testing.Short() {
		packets = 3000
	}
	w := newRoutedTwins(t, securedOnHost(3900), 31, true)
	admitted := map[bool]int{}
	for n := 0; n < packets; n += w.chunks[0].N {
		w.run(w.next)
		jobs := w.gpu.engine.ipsec.free
		for i, job := range jobs[len(jobs)-1][:w.chunks[1].N] {
			if job.Admitted && w.chunks[1].Out[i].Verdict.Action() == batch.ActionForward {
				admitted[job.SA.IfID() != 0]++
			}
		}
	}
	if admitted[true] != 0 || admitted[false] == 0 {
		t.Errorf("the device admitted %d packets of SAs with an if_id, and %d of others", admitted[true], admitted[false])
	}
	sealed, opened := 0, 0
	for _, a := range w.all {
		for what, s := range map[string][2]*ipsec.SA{"out": a.out, "in": a.in} {
			got, want := s[1].Stats(), s[0].Stats()
			if got != want || s[0].Sequence() != s[1].Sequence() {
				t.Errorf("%s, %s: %+v up to %d, the CPU engine %+v up to %d", a.Name, what, got, s[1].Sequence(), want, s[0].Sequence())
			}
			if a.IfID != 0 && what == "out" {
				sealed += int(want.Packets)
			} else if a.IfID != 0 {
				opened += int(want.Packets)
			}
		}
	}
	agreedInShadow(t, w.gpu.engine)
	checkSeen(t, w.seen, packets/5000, batch.XfrmOutNoPols, batch.XfrmInTmplMismatch, batch.XfrmInNoPols)
	if sealed < packets/100 || opened < packets/100 {
		t.Errorf("SAs with an if_id encrypted %d of %d packets, and decrypted %d", sealed, packets, opened)
	}
}
