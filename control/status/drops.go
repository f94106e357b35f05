package status

import (
	"fmt"
	"io"
	"strings"

	"github.com/warproute/warproute/batch"
)

// Drop counts the packets of a port that were not forwarded for one reason: an
// element of `show drops`.
type Drop struct {
	Reason   string `json:"reason"`
	Sentence string `json:"sentence"` // what it means
	Mend     string `json:"mend"`     // what to do about it
	Port     string `json:"port"`     // that received them
	Packets  uint64 `json:"packets"`
}

// Drops lists the reasons for which packets were dropped, by reason, then port; last those
// that the kernel did not hand to the router, and those that a gateway's XDP program dropped.
func Drops(s *Snapshot) []Drop {
	drops := []Drop{} // an array in JSON even if nothing was dropped
	for r := range batch.NumReasons {
		for i := range s.Ports {
			if n := s.Stats.Ports[i].Drops[r]; n > 0 {
				reason := batch.Reason(r)
				drops = append(drops, Drop{reason.String(), reason.Sentence(), reason.Mend(), s.Ports[i].Name, n})
			}
		}
	}
	for _, p := range s.Ports {
		if n := p.XDP.Refused; n > 0 {
			drops = append(drops, Drop{"redirect_refused", RefusedSentence, RefusedHint, p.Name, n})
		}
	}
	for _, t := range transitDrops {
		for _, p := range s.Ports {
			if n := p.XDP.Transit[t.reason]; n > 0 {
				drops = append(drops, Drop{t.reason, t.sentence, t.hint, p.Name, n})
			}
		}
	}
	return drops
}

// RefusedSentence explains frames that the XDP program directed to a socket and the kernel
// did not hand to it; RefusedHint says what to do. They are lost before the router.
const (
	RefusedSentence = "the kernel did not hand the frame to the port's AF_XDP socket"
	RefusedHint     = "use another interface as the port: Linux hands a socket only frames of the socket's own interface and queue (`perf trace -e xdp:xdp_redirect_err` shows the interface and the error)"
)

// reasonDrops are the drops for one reason.
type reasonDrops struct {
	Drop           // of the first port; Packets of all
	ports []string // with their packets
}

// byReason adds up drops of the same reason, which follow one another.
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

// WriteDrops writes a row for each reason, and below the table what each means and what
// to do about it.
func WriteDrops(w io.Writer, drops []Drop) error {
	if len(drops) == 0 {
		_, err := io.WriteString(w, "no packets dropped\n")
		return err
	}
	reasons, total := byReason(drops), uint64(0)
	t := newTable(w, "REASON", "PACKETS", "BY PORT THAT RECEIVED THEM")
	for _, r := range reasons {
		t.row(r.Reason, r.Packets, strings.Join(r.ports, ", "))
		total += r.Packets
	}
	t.row("total", total)
	if err := t.flush(); err != nil {
		return err
	}
	for _, r := range reasons {
		if _, err := fmt.Fprintf(w, "\n%s: %s\n  %s\n", r.Reason, r.Sentence, r.Mend); err != nil {
			return err
		}
	}
	return nil
}
