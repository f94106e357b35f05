package status

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/warproute/warproute/batch"
)

// Drop counts packets that a port received and the router dropped, or frames that were lost before the router, by reason: an
// element of `show drops`.
type Drop struct {
	Reason      string `json:"reason"`      // drop reason, as in metrics; losses before the router have metrics of their own
	Description string `json:"description"` // description of the reason
	Hint        string `json:"hint"`        // suggested fix
	Port        string `json:"port"`        // ingress port
	Packets     uint64 `json:"packets"`     // dropped packets
}

// Drops lists drops by reason, then port. Those by the kernel and the XDP program are last.
func Drops(s *Snapshot) []Drop {
	drops := []Drop{} // [] in JSON without drops, not null
	for r := range batch.NumReasons {
		for i := range s.Ports {
			if n := s.Stats.Ports[i].Drops[r]; n > 0 {
				reason := batch.Reason(r)
				drops = append(drops, Drop{reason.String(), reason.Description(), reason.Hint(), s.Ports[i].Name, n})
			}
		}
	}
	for _, l := range lossesBefore {
		for i := range s.Ports {
			if n := l.frames(&s.Ports[i]); n > 0 {
				drops = append(drops, Drop{l.reason, l.description, l.hint, s.Ports[i].Name, n})
			}
		}
	}
	for _, t := range transitDrops {
		for _, p := range s.Ports {
			if n := p.XDP.Transit[t.reason]; n > 0 {
				drops = append(drops, Drop{t.reason, t.description, t.hint, p.Name, n})
			}
		}
	}
	return drops
}

// loss is a kind of frames that were lost between the XDP program and the router.
type loss struct {
	reason, description, hint string
	frames                    func(*PortState) uint64
}

var lossesBefore = []loss{
	{"redirect_refused", RefusedDescription, RefusedHint, func(p *PortState) uint64 { return p.XDP.Refused }},
	{
		"no_socket", "the frame arrived on a queue without an AF_XDP socket",
		"expected for some milliseconds of an upgrade; otherwise the interface has more queues than when the router started: restart it, or set the number back by `ethtool -L`",
		func(p *PortState) uint64 { return p.XDP.NoSocket },
	},
	{
		"rx_ring_full", "the receive ring of the AF_XDP socket was full",
		"a worker is too slow, or other programs use its core: compare the workers in `warproute top`; use more queues and cores",
		func(p *PortState) uint64 { return p.Rings.RxRingFull },
	},
	{
		"rx_dropped", "the kernel had no receive buffer for the frame, or the frame was too long",
		"a worker is too slow to return buffers: compare the workers in `warproute top`; or a peer sends longer frames than the port's MTU",
		func(p *PortState) uint64 { return p.Rings.RxDropped },
	},
}

// Fate returns what became of the frames, as in "dropped at lan0". Only those that are "dropped" had been received by the router.
func (d *Drop) Fate() string {
	switch {
	case slices.ContainsFunc(lossesBefore, func(l loss) bool { return l.reason == d.Reason }):
		return "lost before the router"
	case slices.ContainsFunc(transitDrops, func(t transitDrop) bool { return t.reason == d.Reason }):
		return "dropped by XDP"
	}
	return "dropped"
}

// RefusedDescription and RefusedHint explain frames that the XDP program redirected to a
// socket and the kernel dropped, before the router received them.
const (
	RefusedDescription = "the kernel refused to redirect the frame to the port's AF_XDP socket"
	RefusedHint        = "use another interface as the port: a socket receives only frames of its own interface and queue (`perf trace -e xdp:xdp_redirect_err` shows the interface and the error)"
)

// reasonDrops sums the drops of all ports with one reason.
type reasonDrops struct {
	Drop           // of the first port, with the Packets of all ports
	ports []string // packets by port: "lan0 6"
}

// byReason sums adjacent drops with the same reason.
func byReason(drops []Drop) (all []reasonDrops) {
	for _, d := range drops {
		port := fmt.Sprintf("%s %d", d.Port, d.Packets)
		if n := len(all); n > 0 && all[n-1].Reason == d.Reason {
			all[n-1].Packets += d.Packets
			all[n-1].ports = append(all[n-1].ports, port)
		} else {
			all = append(all, reasonDrops{d, []string{port}})
		}
	}
	return all
}

// WriteDrops writes one row per reason, then the description and the hint of each.
func WriteDrops(w io.Writer, drops []Drop) error {
	if len(drops) == 0 {
		_, err := io.WriteString(w, "no packets dropped\n")
		return err
	}
	reasons, total := byReason(drops), uint64(0)
	t := newTable(w, "REASON", "PACKETS", "BY INGRESS PORT")
	for _, r := range reasons {
		t.row(r.Reason, r.Packets, strings.Join(r.ports, ", "))
		total += r.Packets
	}
	t.row("total", total)
	if err := t.flush(); err != nil {
		return err
	}
	for _, r := range reasons {
		if _, err := fmt.Fprintf(w, "\n%s: %s\n  %s\n", r.Reason, r.Description, r.Hint); err != nil {
			return err
		}
	}
	return nil
}
