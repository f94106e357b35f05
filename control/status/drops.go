package status

import (
	"fmt"
	"io"
	"strings"

	"github.com/warproute/warproute/batch"
)

// Drop counts packets that a port received and the router dropped, by reason: an element of
// `show drops`.
type Drop struct {
	Reason      string `json:"reason"`      // drop reason, as in metrics
	Description string `json:"description"` // description of the reason
	Hint        string `json:"hint"`        // suggested fix
	Port        string `json:"port"`        // ingress port
	Packets     uint64 `json:"packets"`     // dropped packets
}

// Drops lists drops by reason, then port. Drops by the kernel and the XDP program are last.
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
	for _, p := range s.Ports {
		if n := p.XDP.Refused; n > 0 {
			drops = append(drops, Drop{"redirect_refused", RefusedDescription, RefusedHint, p.Name, n})
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
