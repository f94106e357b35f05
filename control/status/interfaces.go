package status

import (
	"fmt"
	"io"
	"maps"
)

// Interface is an interface of the host, and whether it is a port: an element of `show interfaces`.
type Interface struct {
	Name    string `json:"name"`    // name in `ip link`
	Index   int    `json:"index"`   // interface index
	Port    bool   `json:"port"`    // true if it is a port
	Matched bool   `json:"matched"` // true if a name or a pattern of the configuration matches
	Reason  string `json:"reason"`  // why it is a port, or why not
}

// WriteInterfaces writes a table of interfaces.
func WriteInterfaces(w io.Writer, all []Interface) error {
	t := newTable(w, "INTERFACE", "PORT", "REASON")
	for _, i := range all {
		port := "no"
		if i.Port {
			port = "yes"
		}
		t.row(i.Name, port, i.Reason)
	}
	return t.flush()
}

// WriteUntaken writes why interfaces that match are not ports.
func WriteUntaken(w io.Writer, all []Interface) error {
	for _, i := range all {
		if i.Port || !i.Matched {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s: not a port: %s\n", i.Name, i.Reason); err != nil {
			return err
		}
	}
	return nil
}

// Add adds the counters of another port.
func (x *XDP) Add(o *XDP) {
	x.ToSocket += o.ToSocket
	x.NoSocket += o.NoSocket
	x.Refused += o.Refused
	x.Transit, x.ToLinux = sum(x.Transit, o.Transit), sum(x.ToLinux, o.ToLinux)
}

func sum(a, b map[string]uint64) map[string]uint64 {
	if a == nil {
		a = map[string]uint64{}
	}
	for key, n := range b {
		a[key] += n
	}
	return a
}

// Clone returns a copy that shares nothing.
func (x XDP) Clone() XDP {
	x.Transit, x.ToLinux = maps.Clone(x.Transit), maps.Clone(x.ToLinux)
	return x
}

// Add adds the statistics of another port.
func (r *Rings) Add(o *Rings) {
	r.RxDropped += o.RxDropped
	r.RxRingFull += o.RxRingFull
	r.FillRingEmpty += o.FillRingEmpty
	r.TxRingEmpty += o.TxRingEmpty
	r.RxInvalid += o.RxInvalid
	r.TxInvalid += o.TxInvalid
}
