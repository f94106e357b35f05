// Package routefile reads routes from text and looks up addresses in the router's forwarding
// tables.
//
// The text is the output of `ip route` and `ip -6 route`, or one prefix per line.
package routefile

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/warproute/warproute/internal/textfile"
)

// Route is a route of a file: a line and its `nexthop` lines.
type Route struct {
	Prefix netip.Prefix
	Type   string // Linux route type: unicast, blackhole, unreachable, prohibit, ...
	Paths  []Path // empty for a bare prefix and for types without a next hop
	Metric uint32 // the lowest wins
	MTU    uint16 // in bytes; 0: the MTU of the port applies
}

// Path is a path of a route.
type Path struct {
	Via    netip.Addr // gateway; zero for a directly connected network
	Dev    string     // interface name
	Weight uint32     // share of the flows, at least 1
	Encap  bool       // packets need encapsulation (MPLS, SRv6, tunnels), which the router does not support
	Dead   bool       // unused by Linux, because its link is down
}

// dead reports whether Linux does not use the route: all paths are dead.
func (r *Route) dead() bool {
	return len(r.Paths) > 0 && !slices.ContainsFunc(r.Paths, func(p Path) bool { return !p.Dead })
}

// types contains the route types that `ip route` prints before the prefix.
var types = []string{
	"unicast", "local", "broadcast", "multicast", "throw", "unreachable", "prohibit", "blackhole", "nat", "anycast",
}

// Open reads the file at path, plain or gzip-compressed; "-" is standard input.
//
// The file can be a pipe, as with <(ssh router ip route). A pipe without a writer is an error.
func Open(path string) ([]Route, error) {
	if path == "-" {
		return Read("standard input", os.Stdin)
	}
	f, info, err := textfile.Open(path, fs.ModeNamedPipe)
	if err != nil {
		return nil, fmt.Errorf("read routes: %w", err)
	}
	defer f.Close()
	routes, err := Read(path, f)
	if err == nil && len(routes) == 0 && !info.Mode().IsRegular() {
		err = fmt.Errorf("read routes: nothing comes out of the pipe %s: begin to write to it before it is read", path)
	}
	return routes, err
}

// maxLines is the maximum number of lines. It is many times the internet's routing table and keeps
// endless pipes and gzip bombs from exhausting memory.
const maxLines = 1 << 24

// Read reads routes, plain or gzip-compressed. It skips empty lines and lines that begin with #.
// Errors begin with "name:line:".
func Read(name string, r io.Reader) ([]Route, error) { return read(name, r, maxLines) }

func read(name string, r io.Reader, limit int) ([]Route, error) {
	in := bufio.NewReader(r)
	if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("read routes: unpack %s: %w", name, err)
		}
		in = bufio.NewReader(z)
	}
	var routes []Route
	lines := bufio.NewScanner(in)
	n := 0
	for lines.Scan() {
		if n++; n > limit {
			return nil, fmt.Errorf("%s:%d: more than %d lines: name a file with fewer", name, n, limit)
		}
		words := strings.Fields(lines.Text())
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		var err error
		if routes, err = addLine(routes, words); err != nil {
			if lines.Err() != nil {
				n--
				break // the read error truncated the line
			}
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: read routes: %w", name, n+1, err)
	}
	return routes, nil
}

// addLine appends the route of a line, or adds the paths of a `nexthop` line to the last route.
func addLine(routes []Route, words []string) ([]Route, error) {
	if words[0] != "nexthop" {
		route, err := parseRoute(words)
		return append(routes, route), err
	}
	if len(routes) == 0 {
		return nil, errors.New("a nexthop line without a route before it")
	}
	return routes, routes[len(routes)-1].addPaths(words[1:])
}

// parseRoute parses [TYPE] PREFIX [KEY VALUE]... [nexthop [KEY VALUE]...]...
func parseRoute(words []string) (Route, error) {
	route := Route{Type: "unicast"}
	if slices.Contains(types, words[0]) {
		route.Type, words = words[0], words[1:]
	}
	if len(words) == 0 {
		return route, fmt.Errorf("a %s route without a prefix", route.Type)
	}
	var err error
	if route.Prefix, err = parsePrefix(words); err != nil {
		return route, err
	}
	path, more, err := parsePath(words[1:], &route)
	if err != nil {
		return route, err
	}
	if path.Via.IsValid() || path.Dev != "" && (route.Type == "unicast" || route.Type == "multicast" && route.Prefix.Addr().Is6()) {
		route.Paths = []Path{path}
	}
	return route, route.addPaths(more)
}

// addPaths adds paths separated by `nexthop`.
func (r *Route) addPaths(words []string) error {
	for words != nil {
		path, more, err := parsePath(words, r)
		if err != nil {
			return err
		}
		r.Paths, words = append(r.Paths, path), more
	}
	return nil
}

// parsePrefix parses the first word of a route. The words after `default` determine its family.
func parsePrefix(words []string) (netip.Prefix, error) {
	if words[0] == "default" {
		for i, w := range words {
			if w == "pref" || w == "via" && i+1 < len(words) && (words[i+1] == "inet6" || strings.Contains(words[i+1], ":")) {
				return netip.PrefixFrom(netip.IPv6Unspecified(), 0), nil
			}
		}
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0), nil
	}
	if addr, err := netip.ParseAddr(words[0]); err == nil && addr.Zone() == "" {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(words[0])
	if err != nil {
		return p, fmt.Errorf("%q is not a prefix; write lines such as \"192.0.2.0/24 via 10.0.0.1 dev eth0\" or \"2001:db8::/32\"", words[0])
	}
	if p != p.Masked() {
		return p, fmt.Errorf("%v has address bits beyond its length; did you mean %v?", p, p.Masked())
	}
	return p, nil
}

// parsePath parses the keys and values after a prefix or `nexthop`, up to the next `nexthop`. more
// contains the words after that, nil for none.
//
// It skips unknown keys, whose values are never known keys.
func parsePath(words []string, route *Route) (path Path, more []string, err error) {
	path.Weight = 1
	for i := 0; i < len(words); i++ {
		key := words[i]
		switch key {
		case "nexthop": // on the same line with `ip -oneline`
			return path, words[i+1:], nil
		case "dead":
			path.Dead = true
			continue
		case "encap": // its values are skipped: they are never known keys
			path.Encap = true
			continue
		case "via", "dev", "metric", "mtu", "weight", "from":
		default:
			continue
		}
		if i++; i < len(words) && key == "via" && (words[i] == "inet" || words[i] == "inet6") {
			i++ // gateway and prefix differ in family
		} else if i < len(words) && key == "mtu" && words[i] == "lock" {
			i++ // disables path MTU discovery
		}
		if i >= len(words) {
			return path, nil, fmt.Errorf("%q without a value", key)
		}
		value := words[i]
		switch key {
		case "via":
			path.Via, err = netip.ParseAddr(value)
		case "dev":
			path.Dev = value
		case "metric":
			var m uint64
			m, err = strconv.ParseUint(value, 10, 32)
			route.Metric = uint32(m)
		case "mtu":
			var n uint64
			n, err = strconv.ParseUint(value, 10, 16)
			route.MTU = uint16(n)
		case "weight":
			var n uint64
			n, err = strconv.ParseUint(value, 10, 9)
			if err != nil || n < 1 || n > 256 {
				err = errors.New("it is a number from 1 to 256")
			}
			path.Weight = uint32(n)
		case "from":
			return path, nil, fmt.Errorf("a route by source address (from %s): the router looks up destinations alone; leave the line out", value)
		}
		if err != nil {
			return path, nil, fmt.Errorf("%s %q: %w", key, value, err)
		}
	}
	return path, nil, nil
}
