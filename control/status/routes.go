package status

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/warproute/warproute/control/mirror"
)

// Answer is the route lookup result of one address: an element of `route lookup`.
type Answer struct {
	Address netip.Addr   `json:"address"`          // looked-up address
	Found   bool         `json:"found"`            // true if a route covers the address
	Prefix  netip.Prefix `json:"prefix,omitzero"`  // prefix of the route
	Action  string       `json:"action,omitempty"` // action of the route: forward, blackhole, ...
	MTU     uint16       `json:"mtu,omitempty"`    // MTU of the route, bytes; 0: the MTU of the port applies
	Paths   []Path       `json:"paths,omitempty"`  // paths of a forwarding route
}

// Path is one path of a route.
type Path struct {
	Via         netip.Addr         `json:"via,omitzero"`          // gateway; absent for a directly connected network
	Port        string             `json:"port"`                  // interface name
	MAC         string             `json:"mac,omitempty"`         // MAC address of the neighbor, if resolved
	Weight      uint32             `json:"weight"`                // share of the flows, at least 1
	Dead        bool               `json:"dead,omitempty"`        // true if the link is down or Linux does not use the path
	Unsupported mirror.Unsupported `json:"unsupported,omitempty"` // reason why the path drops packets
}

// AnswerOf converts the result of mirror.Lookup.
func AnswerOf(addr netip.Addr, r mirror.RouteInfo, found bool) Answer {
	if !found {
		return Answer{Address: addr}
	}
	return Answer{Address: addr, Found: true, Prefix: r.Prefix, Action: ActionOf(r.Kind, r.Unsupported), MTU: r.MTU, Paths: pathsOf(r)}
}

// ActionOf returns the action of a route kind. A route over an interface that is not a port
// is "no port"; its path names the interface.
func ActionOf(kind string, u mirror.Unsupported) string {
	if u == "" || u == mirror.NoPort {
		return kind
	}
	return fmt.Sprintf("not supported (%s)", u)
}

// pathsOf converts the paths of a route.
func pathsOf(r mirror.RouteInfo) (paths []Path) {
	for _, p := range r.Paths {
		paths = append(paths, Path{Via: p.Via, Port: p.Dev, MAC: p.MAC, Weight: p.Weight, Dead: p.Dead, Unsupported: p.Unsupported})
	}
	return paths
}

// AnswerTable writes answers in batches, each batch aligned.
type AnswerTable struct {
	w     io.Writer
	begun bool
}

// NewAnswerTable begins a table of answers.
func NewAnswerTable(w io.Writer) *AnswerTable { return &AnswerTable{w: w} }

// Write adds one row per path, or one row for an address without paths.
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

// RouteTable streams routes in columns of fixed widths, so a full table is never in memory.
type RouteTable struct {
	w   io.Writer
	vrf string // of the last route
}

// NewRouteTable begins a table of routes.
func NewRouteTable(w io.Writer) (*RouteTable, error) {
	t := &RouteTable{w: w}
	return t, t.line("PREFIX", "ACTION", "PROTOCOL", "NEXT HOP")
}

// Write adds a route. Those of a VRF follow a line with its name and table. Routes that lose to a better route of the prefix are marked unused.
func (t *RouteTable) Write(r mirror.RouteInfo) error {
	if r.VRF != t.vrf {
		if t.vrf = r.VRF; t.vrf != "" {
			if _, err := fmt.Fprintf(t.w, "VRF %s, table %s:\n", r.VRF, r.Table); err != nil {
				return err
			}
		}
	}
	paths := pathsOf(r)
	texts := make([]string, len(paths))
	for i, p := range paths {
		texts[i] = p.via() + " on " + p.Port + p.remarks(len(paths) > 1)
	}
	hops := strings.Join(texts, ", ") + mtuRemark(r.MTU)
	if !r.Installed {
		hops = strings.TrimLeft(hops+" (unused: better route exists)", " ")
	}
	return t.line(r.Prefix.String(), ActionOf(r.Kind, r.Unsupported), r.Protocol, hops)
}

func (t *RouteTable) line(prefix, action, protocol, hops string) error {
	text := fmt.Sprintf("%-29s  %-11s  %-8s  %s", prefix, action, protocol, hops)
	_, err := fmt.Fprintln(t.w, strings.TrimRight(text, " "))
	return err
}

// WriteMirror writes the synchronization state of Linux routes.
func WriteMirror(w io.Writer, m mirror.Status) error {
	t := newTable(w)
	t.row("routes", fmt.Sprintf("%d IPv4, %d IPv6, including host routes of neighbors", m.RoutesIPv4, m.RoutesIPv6))
	for _, v := range m.VRFs {
		remark := ""
		if !v.Complete {
			remark = ", being read"
		}
		t.row("VRF "+v.Name, fmt.Sprintf("table %d, %d IPv4, %d IPv6, %s%s", v.Table, v.RoutesIPv4, v.RoutesIPv6, counted(v.Ports, "port", "ports"), remark))
	}
	t.row("next hops", fmt.Sprintf("%d, %s", m.NextHops, counted(m.Adjacencies, "adjacency", "adjacencies")))
	t.row("neighbors", m.Neighbors)
	t.row("events", fmt.Sprintf("%d, last batch applied in %v", m.Events, m.LastUpdate.Round(time.Microsecond)))
	t.row("resyncs", fmt.Sprintf("%d full, %d of single links", m.Resyncs, m.Audits))
	if m.Malformed > 0 {
		t.row("malformed", count(m.Malformed, "netlink message"))
	}
	for _, text := range m.Warnings {
		t.row("warning", text)
	}
	return t.flush()
}

// WriteVerification writes the comparison of the forwarding table with Linux.
func WriteVerification(w io.Writer, v mirror.Verification) error {
	_, err := fmt.Fprintf(w, "%d IPv4 and %d IPv6 prefixes in Linux, compared at %s: ", v.RoutesIPv4, v.RoutesIPv6, counted(v.Addresses, "address", "addresses"))
	if err == nil && v.Different == 0 {
		_, err = io.WriteString(w, "the forwarding table matches\n")
	} else if err == nil {
		_, err = fmt.Fprintf(w, "%s\n\n", count(v.Different, "difference"))
	}
	if err != nil || v.Different == 0 {
		return err
	}
	t := newTable(w, "ADDRESS", "LINUX", "ROUTER")
	for _, d := range v.Differences {
		addr := "-" // difference in the number of routes
		if d.Address.IsValid() {
			addr = d.Address.String()
		}
		if d.Table != 0 {
			addr += fmt.Sprintf(" (table %d)", d.Table)
		}
		t.row(addr, d.Linux, d.Router)
	}
	return t.flush()
}

// WriteNeighbors writes one row per neighbor.
func WriteNeighbors(w io.Writer, all []mirror.NeighborInfo) error {
	if len(all) == 0 {
		_, err := io.WriteString(w, "no neighbors\n")
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

// remarks returns the weight, for one of several paths, and the reason why the path is unusable.
func (p Path) remarks(several bool) (s string) {
	if several {
		s = fmt.Sprintf(" weight %d", p.Weight)
	}
	if p.Dead {
		s += " (dead)"
	}
	switch {
	case p.Unsupported == mirror.NoPort:
		s += " (not a port)"
	case p.Unsupported != "" && several: // with one path, the action contains it
		s += fmt.Sprintf(" (not supported: %s)", p.Unsupported)
	}
	return s
}
