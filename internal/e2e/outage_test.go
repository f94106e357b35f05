package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
)

// outage is the loss of a flow by a fault.
type outage struct {
	lost    int           // packets
	lasted  time.Duration // the longest time without any
	atOther int           // packets that took the way over wan1
}

// during causes a fault under load and returns the outage of each flow. The router's tables must equal
// Linux's afterwards.
func (f *fork) during(t *testing.T, fault func(), dsts ...string) []outage {
	t.Helper()
	server := startWatch(t, f.Server, lab.ServerLink)
	f.others = []*watch{startWatch(t, f.other, "other0")}
	dropped := f.droppedByLinux(t)
	l := startLoad(t, f.Topology, rate, dsts...)
	time.Sleep(effect)
	fault()
	time.Sleep(effect)
	l.end()
	f.router.equal()
	outages := make([]outage, len(dsts))
	for flow := range outages {
		arrivals := [][]arrival{server.of(uint32(flow))}
		var o outage
		for _, w := range f.others {
			arrivals = append(arrivals, w.of(uint32(flow)))
			o.atOther += len(w.of(uint32(flow)))
		}
		lost, _ := missing(l.sent[flow].Load(), arrivals...)
		o.lost = len(lost)
		// A gap in the numbers is a time at the flow's rate.
		run, last := 0, -2
		for _, n := range lost {
			if int(n) != last+1 {
				run = 0
			}
			run, last = run+1, int(n)
			o.lasted = max(o.lasted, time.Duration(run)*time.Second*time.Duration(len(dsts))/rate)
		}
		outages[flow] = o
	}
	if n := f.droppedByLinux(t) - dropped; n > 0 {
		t.Logf("%d packets dropped by Linux between the namespaces", n)
		for i := range outages {
			if o := &outages[i]; o.lost > n {
				o.lost -= n
			} else {
				o.lost, o.lasted = 0, 0
			}
		}
	}
	return outages
}

// manyRoutes returns lines for `ip -batch`.
func manyRoutes(n int, format string) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf(format, i>>16, i>>8&255, i&255))
	}
	return lines
}
