package status

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/warproute/warproute/control/mirror"
)

// Answer is the route of one address: an element of `route lookup`.
type Answer struct {
	Address netip.Addr   `json:"address"`
	Found   bool         `json:"found"` // whether a prefix covers the address
	Prefix  netip.Prefix `json:"prefix,omitzero"`
	Action  string       `json:"action,omitempty"` // what becomes of packets: forward, blackhole, ...
	MTU     uint16       `json:"mtu,omitempty"`    // the route's own, which bounds that of the port
	Paths   []Path       `json:"paths,omitempty"`  // none if they are not forwarded
}

// Path is one way to a route's destinations.
type Path struct {
	Via    netip.Addr `json:"via,omitzero"` // the gateway; zero for a directly connected network
	Port   string     `json:"port"`         // the interface's name
	MAC    string     `json:"mac,omitempty"`
	Weight uint32     `json:"weight"` // share of the flows, at least 1
	Dead   bool       `json:"dead,omitempty"`
	// Unsupported is why packets do not leave by the path, "" if they do.
	Unsupported mirror.Unsupported `json:"unsupported,omitempty"`
}

// AnswerOf makes an answer of what mirror.Lookup returns.
func AnswerOf(addr netip.Addr, r mirror.RouteInfo, found bool) Answer {
	if !found {
		return Answer{Address: addr}
	}
	return Answer{Address: addr, Found: true, Prefix: r.Prefix, Action: ActionOf(r.Kind, r.Unsupported), MTU: r.MTU, Paths: pathsOf(r)}
}

// ActionOf names what becomes of packets that take a route of a kind. A route by an
// interface that is not a port is "no port"; its path says which interface.
func ActionOf(kind string, u mirror.Unsupported) string {
	if u == "" || u == mirror.NoPort {
		return kind
	}
	return fmt.Sprintf("not supported (%s)", u)
}

func pathsOf(r mirror.RouteInfo) (paths []Path) {
	for _, p := range r.Paths {
		paths = append(paths, Path{Via: p.Via, Port: p.Dev, MAC: p.MAC, Weight: p.Weight, Dead: p.Dead, Unsupported: p.Unsupported})
	}
	return paths
}

// AnswerTable writes answers as they come, aligned with those that come with them.
type AnswerTable struct {
	w     io.Writer
	begun bool
}

// NewAnswerTable begins a table of answers.
func NewAnswerTable(w io.Writer) *AnswerTable { return &AnswerTable{w: w} }

// Write adds a row for each address, and one for each further path.
func (w *AnswerTable) Write(answers []Answer) error {
	t := newTable(w.w)
	if !w.begun {
		t.row("ADDRESS", "PREFIX", "ACTION", "NEXT HOP", "PORT")
		w.begun = true
	}
	for _, a := range answers {
		action := a.Action + mtuRemark(a.MTU)
		switch {
		case !a.Found:
			t.row(a.Address, "-", "no route", "-", "-")
			continue
		case len(a.Paths) == 0:
			t.row(a.Address, a.Prefix, action, "-", "-")
		}
		for i, p := range a.Paths {
			port := p.Port + p.remarks(len(a.Paths) > 1)
			if i == 0 {
				t.row(a.Address, a.Prefix, action, p.via(), port)
			} else {
				t.row("", "", "", p.via(), port)
			}
		}
	}
	return t.flush()
}

// RouteTable writes routes as they come: a full table is never in memory, and
// its columns have fixed widths, the first that of a link-local address's host route.
type RouteTable struct{ w io.Writer }

// NewRouteTable begins a table of routes.
func NewRouteTable(w io.Writer) (*RouteTable, error) {
	t := &RouteTable{w}
	return t, t.line("PREFIX", "ACTION", "PROTOCOL", "NEXT HOP")
}

// Write adds a route. One that another route of its prefix is better than is
// marked as unused.
func (t *RouteTable) Write(r mirror.RouteInfo) error {
	paths := pathsOf(r)
	texts := make([]string, len(paths))
	for i, p := range paths {
		texts[i] = p.via() + " on " + p.Port + p.remarks(len(paths) > 1)
	}
	hops := strings.Join(texts, ", ") + mtuRemark(r.MTU)
	if !r.Installed {
		hops = strings.TrimLeft(hops+" (unused, a better one has the prefix)", " ")
	}
	return t.line(r.Prefix.String(), ActionOf(r.Kind, r.Unsupported), r.Protocol, hops)
}

func (t *RouteTable) line(prefix, action, protocol, hops string) error {
	text := fmt.Sprintf("%-29s  %-11s  %-8s  %s", prefix, action, protocol, hops)
	_, err := fmt.Fprintln(t.w, strings.TrimRight(text, " "))
	return err
}

// WriteMirror says how the mirror of Linux's routes is doing.
func WriteMirror(w io.Writer, m mirror.Status) error {
	t := newTable(w)
	t.row("routes", fmt.Sprintf("%d of IPv4, %d of IPv6, those to neighbors included", m.RoutesIPv4, m.RoutesIPv6))
	t.row("next hops", fmt.Sprintf("%d, over %d adjacencies", m.NextHops, m.Adjacencies))
	t.row("neighbors", m.Neighbors)
	t.row("events", fmt.Sprintf("%d, the last batch in %v", m.Events, m.LastUpdate.Round(time.Microsecond)))
	t.row("comparisons", fmt.Sprintf("%d of all with Linux, %d of the routes over a link", m.Resyncs, m.Audits))
	if m.Malformed > 0 {
		t.row("unreadable", m.Malformed)
	}
	for _, text := range m.Warnings {
		t.row("warning", text)
	}
	return t.flush()
}

// WriteVerification says how the engines' tables compare with Linux's.
func WriteVerification(w io.Writer, v mirror.Verification) error {
	_, err := fmt.Fprintf(w, "%d IPv4 and %d IPv6 prefixes of Linux, compared at %d addresses: ", v.RoutesIPv4, v.RoutesIPv6, v.Addresses)
	if err == nil && v.Different == 0 {
		_, err = io.WriteString(w, "the engines read the same\n")
	} else if err == nil {
		_, err = fmt.Fprintf(w, "%d differ\n\n", v.Different)
	}
	if err != nil || v.Different == 0 {
		return err
	}
	t := newTable(w, "ADDRESS", "LINUX", "ENGINES")
	for _, d := range v.Differences {
		addr := "-" // of sizes
		if d.Address.IsValid() {
			addr = d.Address.String()
		}
		t.row(addr, d.Linux, d.Engines)
	}
	return t.flush()
}

// WriteNeighbors writes a row for each neighbour.
func WriteNeighbors(w io.Writer, all []mirror.NeighborInfo) error {
	if len(all) == 0 {
		_, err := io.WriteString(w, "no neighbors yet\n")
		return err
	}
	t := newTable(w, "ADDRESS", "PORT", "MAC", "STATE", "USED")
	for _, n := range all {
		mac, used := n.MAC, "no"
		if mac == "" {
			mac = "-"
		}
		if n.Used {
			used = "yes"
		}
		t.row(n.Address, n.Dev, mac, n.State, used)
	}
	return t.flush()
}

func (p Path) via() string {
	if !p.Via.IsValid() {
		return "direct"
	}
	return p.Via.String()
}

func mtuRemark(mtu uint16) string {
	if mtu == 0 {
		return ""
	}
	return fmt.Sprintf(", mtu %d", mtu)
}

// remarks are the path's weight, where there is a choice, and whether it is usable.
func (p Path) remarks(choice bool) (s string) {
	if choice {
		s = fmt.Sprintf(" weight %d", p.Weight)
	}
	if p.Dead {
		s += " (dead)"
	}
	switch {
	case p.Unsupported == mirror.NoPort:
		s += " (not a port)"
	case p.Unsupported != "" && choice: // else the route's action says it
		s += fmt.Sprintf(" (not supported: %s)", p.Unsupported)
	}
	return s
}
