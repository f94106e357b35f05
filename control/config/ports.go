package config

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/warproute/warproute/internal/netdev"
)

// The list of ports has names, patterns and exclusions. Patterns are those of path.Match. An interface that
// a pattern matches becomes a port when it can, while the router runs, too.

// auto is the pattern that selects physical and virtual Ethernet interfaces.
const auto = "auto"

const patternChars = `*?[\`

// maxPattern is the maximum length of a pattern in bytes.
const maxPattern = 64

// Pattern reports whether the port stands for the interfaces that match a pattern, or for all that can be ports.
func (p *Port) Pattern() bool {
	return p.Auto || strings.ContainsAny(p.Interface, patternChars) && !p.Excludes()
}

// Excludes reports whether the port stands for interfaces that patterns do not take.
func (p *Port) Excludes() bool { return strings.HasPrefix(p.Interface, "!") }

// matches reports whether the interface is named, matched or excluded by p.
func (p *Port) matches(name string) bool {
	ok, _ := path.Match(strings.TrimPrefix(p.Interface, "!"), name)
	return p.Auto || ok || name == p.Interface
}

// Patterns reports whether interfaces become ports while the router runs.
func (c *Config) Patterns() bool {
	return slices.ContainsFunc(c.Ports, func(p Port) bool { return p.Pattern() })
}

// named returns the ports with a name.
func (c *Config) named() (ports []Port) {
	for _, p := range c.Ports {
		if !p.Pattern() && !p.Excludes() {
			ports = append(ports, p)
		}
	}
	return ports
}

// present returns the ports with names, and the interfaces of this host whose names match patterns, whether or not
// they can be ports now.
func (c *Config) present() ([]string, error) {
	names := c.Interfaces()
	if !c.Patterns() {
		return names, nil
	}
	devices, err := netdev.Devices()
	if err != nil {
		return nil, err
	}
	for _, s := range c.Select(devices) {
		if s.Matched && !slices.Contains(names, s.Interface) {
			names = append(names, s.Interface)
		}
	}
	return slices.DeleteFunc(names, func(n string) bool { return n == "lo" }), nil
}

// ports reads the list of ports.
func (r *reader) ports() value {
	c := r.config
	items := list(func(int) value {
		c.Ports = append(c.Ports, Port{Mode: ModeAuto, ReversePath: ReversePathAuto})
		p := &c.Ports[len(c.Ports)-1]
		queues := "all" // the only choice
		settings := mapping(
			field{"interface", text(&p.Interface)},
			field{"queues", oneOf(&queues, "all")},
			field{"mode", oneOf(&p.Mode, modes...)},
			field{"reverse_path", oneOf(&p.ReversePath, reversePaths...)},
		)
		return func(r *reader, key string, n ast.Node) {
			if s, ok := n.(*ast.StringNode); ok {
				p.Interface, p.Auto = s.Value, s.Value == auto
				return
			}
			settings(r, key, n)
		}
	})
	return func(r *reader, key string, n ast.Node) {
		s, ok := n.(*ast.StringNode)
		switch {
		case !ok:
			items(r, key, n)
		case s.Value == auto:
			c.Ports = append(c.Ports, Port{Interface: auto, Mode: ModeAuto, ReversePath: ReversePathAuto, Auto: true})
		default:
			r.wrongType(key, n, "a list", "begin each entry with `- `, or write auto")
		}
	}
}

// checkPattern returns the error of a pattern or exclusion, "" for none.
func checkPattern(p string) string {
	pattern := strings.TrimPrefix(p, "!")
	switch _, err := path.Match(pattern, ""); {
	case err != nil:
		return fmt.Sprintf("%q is not a valid pattern of interface names", p)
	case pattern == "" || len(pattern) > maxPattern || strings.ContainsFunc(pattern, notInName):
		return fmt.Sprintf("%q matches no valid interface name", p)
	}
	return ""
}

// Selection says whether an interface is to be a port, and why.
type Selection struct {
	Interface string
	Index     int
	Port      Port   // its settings, if it is taken
	Taken     bool   // it is to be a port
	Reason    string // why it is taken, or why not
	Matched   bool   // a name or pattern matches
	Down      bool   // it is not taken for the only reason that it is down
}

// Select decides which of the interfaces are to be ports: those that are named, and those that match a
// pattern and can be ports. Names win over patterns, exclusions over patterns, and earlier patterns over later ones.
func (c *Config) Select(devices []netdev.Device) []Selection {
	byIndex := map[int]*netdev.Device{}
	for i := range devices {
		byIndex[devices[i].Index] = &devices[i]
	}
	all := make([]Selection, len(devices))
	for i := range devices {
		d := &devices[i]
		all[i] = c.choose(d, byIndex[d.Master])
		all[i].Interface, all[i].Index = d.Name, d.Index
	}
	return all
}

// SelectHost is Select for the interfaces of this host. Named interfaces that do not exist are taken, too.
func (c *Config) SelectHost() ([]Selection, error) {
	devices, err := netdev.Devices()
	if err != nil {
		return nil, err
	}
	all := c.Select(devices)
	for _, p := range c.named() {
		if !slices.ContainsFunc(all, func(s Selection) bool { return s.Interface == p.Interface }) {
			all = append(all, Selection{Interface: p.Interface, Port: p, Taken: true, Matched: true, Reason: "named"})
		}
	}
	return all, nil
}

// choose decides on an interface.
func (c *Config) choose(d, master *netdev.Device) Selection {
	var by *Port
	for i := range c.Ports {
		switch p := &c.Ports[i]; {
		case p.Bond == d.Name:
			return Selection{Port: *p, Taken: true, Matched: true, Reason: "named"}
		case !p.matches(d.Name):
		case !p.Pattern() && !p.Excludes():
			return Selection{Port: *p, Taken: true, Matched: true, Reason: "named"}
		case p.Excludes():
			by = p
		case by == nil:
			by = p
		}
	}
	switch {
	case by == nil:
		return Selection{Reason: "no name or pattern of ports matches"}
	case by.Excludes():
		return Selection{Reason: fmt.Sprintf("excluded by %q", by.Interface)}
	}
	why := c.unfit(d, master)
	if why == "" && by.Auto && !autoKinds[d.Kind] {
		why = fmt.Sprintf("auto does not take interfaces of kind %s: write its name or a pattern", d.Kind)
	}
	if why == "" && by.Auto && master != nil { // of management, maybe
		why = fmt.Sprintf("in VRF %s, from which auto takes none: write its name or a pattern", master.Name)
	}
	if why != "" {
		return Selection{Reason: why, Matched: true}
	}
	if !d.Up {
		return Selection{Reason: "down: taken when it is set up", Matched: true, Down: true}
	}
	port := *by
	port.Interface, port.Auto = d.Name, false
	return Selection{Port: port, Taken: true, Matched: true, Reason: "matches " + by.Interface}
}

// autoKinds are the kinds of interfaces that auto takes.
var autoKinds = map[string]bool{"device": true, "veth": true, "tuntap": true}

// unfit returns why no pattern takes an interface, "" if one does. A gateway takes none in a VRF.
func (c *Config) unfit(d, master *netdev.Device) string {
	switch {
	case d.Loopback:
		return "loopback"
	case !d.Ethernet:
		return "not Ethernet: it has no MAC address"
	case d.Kind == "bond" || d.Kind == "team" || d.Kind == "bridge" || d.Kind == "vrf":
		return "a " + d.Kind
	case master != nil && master.Kind == "vrf" && !c.Protects():
	case master != nil:
		return fmt.Sprintf("member of %s %s", master.Kind, master.Name)
	case d.Master != 0:
		return "member of another interface"
	case d.Kind == "vlan":
		return "a VLAN, which is a port if its parent is one"
	case d.Kind == "macvlan" || d.Kind == "macvtap" || d.Kind == "ipvlan" || d.Kind == "ipvtap":
		return "a " + d.Kind + " of another interface"
	}
	return ""
}

// PortOf returns the settings of an interface with a name, if it is named or a pattern takes it.
func (c *Config) PortOf(name string) (of Port, ok bool) {
	for _, p := range c.Ports {
		switch {
		case !p.matches(name):
		case !p.Pattern() && !p.Excludes():
			return p, true
		case p.Excludes():
			of.Interface = "!"
		case of.Interface == "":
			of = p
		}
	}
	if of.Interface == "" || of.Excludes() {
		return Port{}, false
	}
	of.Interface, of.Auto = name, false
	return of, true
}

// Names reports whether a port has a name, or is a member of a bond with it.
func (c *Config) Names(name string) bool {
	return slices.ContainsFunc(c.named(), func(p Port) bool { return p.Interface == name || p.Bond == name })
}

// AtStart returns the ports that a router opens at its start: those with names, and of the interfaces that match patterns so many that
// there are at most MaxPorts ports.
func (c *Config) AtStart(devices []netdev.Device) []Port {
	ports := c.named()
	for _, d := range c.Select(devices) {
		if d.Taken && !c.Names(d.Interface) && len(ports) < MaxPorts {
			ports = append(ports, d.Port)
		}
	}
	return ports
}

// Room returns the number of ports at a time for which memory is allocated, with a number of them at the start.
func (c *Config) Room(atStart int) int {
	switch {
	case c.MaxPorts > 0:
		return max(c.MaxPorts, atStart)
	case c.Patterns():
		return min(atStart+8, MaxPorts)
	}
	return min(atStart+2, MaxPorts)
}
