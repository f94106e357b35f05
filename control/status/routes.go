package status

import (
	"fmt"
	"io"
	"strings"
)

// Route is a route as the forwarding base has it: an element of `show routes`.
type Route struct {
	Prefix   string `json:"prefix"`
	Type     string `json:"type"`               // forward, blackhole, unreachable, prohibit, ...
	Protocol string `json:"protocol,omitempty"` // who gave it to Linux: kernel, static, bird, ...
	Metric   uint32 `json:"metric,omitempty"`
	Paths    []Path `json:"paths,omitempty"` // none for types that do not forward
}

// Path is one way to a route's destinations.
type Path struct {
	Via    string `json:"via,omitempty"` // the gateway; empty for a directly connected network
	Port   string `json:"port,omitempty"`
	MAC    string `json:"mac,omitempty"` // of the next hop; empty while unresolved
	Weight int    `json:"weight"`        // share of the flows, at least 1
	Dead   bool   `json:"dead,omitempty"`
}

// Neighbor is a next hop's link address: an element of `show neighbors`.
type Neighbor struct {
	Address string `json:"address"`
	Port    string `json:"port"`
	MAC     string `json:"mac,omitempty"` // empty while unresolved
	State   string `json:"state"`         // as Linux calls it: reachable, stale, failed, ...
}

// Answer is the route of one address: an element of `route lookup`.
type Answer struct {
	Address string `json:"address"`
	Found   bool   `json:"found"` // whether a prefix covers the address
	Route
}

// RouteTable writes routes one after the other, so that a full table needs no memory.
type RouteTable struct{ w io.Writer }

// NewRouteTable begins a table of routes.
func NewRouteTable(w io.Writer) (*RouteTable, error) {
	t := &RouteTable{w}
	return t, t.line("PREFIX", "TYPE", "NEXT HOP")
}

// Write adds a route.
func (t *RouteTable) Write(r Route) error { return t.line(r.Prefix, r.Type, paths(r.Paths)) }

// line pads to fixed columns: those of a table that is not known as a whole.
func (t *RouteTable) line(prefix, kind, hop string) error {
	_, err := fmt.Fprintln(t.w, strings.TrimRight(fmt.Sprintf("%-26s  %-11s  %s", prefix, kind, hop), " "))
	return err
}

// WriteNeighbors writes a row for each neighbour.
func WriteNeighbors(w io.Writer, all []Neighbor) error {
	if len(all) == 0 {
		_, err := io.WriteString(w, "no neighbors yet\n")
		return err
	}
	t := newTable(w, "ADDRESS", "PORT", "MAC", "STATE")
	for _, n := range all {
		t.row(n.Address, n.Port, orDash(n.MAC), n.State)
	}
	return t.flush()
}

// WriteAnswers writes a row for each address, with the next hop and port of each path.
func WriteAnswers(w io.Writer, answers []Answer) error {
	t := newTable(w, "ADDRESS", "PREFIX", "TYPE", "NEXT HOP", "PORT")
	for _, a := range answers {
		if !a.Found {
			t.row(a.Address, "-", "no route", "-", "-")
			continue
		}
		if len(a.Paths) == 0 {
			t.row(a.Address, a.Prefix, a.Type, "-", "-")
		}
		for i, p := range a.Paths {
			address, prefix, kind := a.Address, a.Prefix, a.Type
			if i > 0 { // further paths of the same route
				address, prefix, kind = "", "", ""
			}
			t.row(address, prefix, kind, p.via(), orDash(p.Port)+p.share(a.Paths))
		}
	}
	return t.flush()
}

// paths writes ways in one line: "192.0.2.1 on wan0 weight 2, 192.0.2.9 on wan1 weight 1".
func paths(all []Path) string {
	texts := make([]string, len(all))
	for i, p := range all {
		texts[i] = p.via() + " on " + orDash(p.Port) + p.share(all)
		if p.Dead {
			texts[i] += " (dead)"
		}
	}
	return strings.Join(texts, ", ")
}

func (p Path) via() string {
	if p.Via == "" {
		return "direct"
	}
	return p.Via
}

// share is the path's weight where there is a choice.
func (p Path) share(all []Path) string {
	if len(all) < 2 {
		return ""
	}
	return fmt.Sprintf(" weight %d", p.Weight)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
