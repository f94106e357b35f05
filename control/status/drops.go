package status

import (
	"io"

	"github.com/warproute/warproute/batch"
)

// Drop counts the packets of a port that were not forwarded for one reason: an
// element of `show drops`.
type Drop struct {
	Reason   string `json:"reason"`
	Sentence string `json:"sentence"`
	Port     string `json:"port"` // that received them
	Packets  uint64 `json:"packets"`
}

// Drops lists the reasons for which packets were dropped, by reason, then port.
func Drops(s *Snapshot) []Drop {
	drops := []Drop{} // an array in JSON even if nothing was dropped
	for r := range batch.NumReasons {
		for i := range s.Ports {
			if n := s.Stats.Ports[i].Drops[r]; n > 0 {
				reason := batch.Reason(r)
				drops = append(drops, Drop{reason.String(), reason.Sentence(), s.Ports[i].Name, n})
			}
		}
	}
	return drops
}

// WriteDrops writes a row for each reason and port.
func WriteDrops(w io.Writer, drops []Drop) error {
	if len(drops) == 0 {
		_, err := io.WriteString(w, "no packets dropped\n")
		return err
	}
	t := newTable(w, "REASON", "PORT", "PACKETS", "WHY")
	for _, d := range drops {
		t.row(d.Reason, d.Port, d.Packets, d.Sentence)
	}
	return t.flush()
}
