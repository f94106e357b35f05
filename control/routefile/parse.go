// Package routefile reads routes from text: what `ip route` and `ip -6 route`
// print, or bare prefixes, one a line; and looks addresses up in them with the
// tables that the router forwards by.
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

// Route is a line of a file, with the `nexthop` lines that follow it.
type Route struct {
	Prefix netip.Prefix
	Type   string // as Linux calls it: unicast, blackhole, unreachable, prohibit, ...
	Paths  []Path // none for a bare prefix and for types without next hop
	Metric uint32 // the least wins
	MTU    uint16 // of packets that take the route, in bytes; 0: the port's alone
}

// Path is one way to a route's destinations.
type Path struct {
	Via    netip.Addr // zero for a directly connected network
	Dev    string
	Weight uint32 // share of the flows, at least 1
	Encap  bool   // packets need another header (MPLS, SRv6, tunnels), which the router does not make
	Dead   bool   // its link is down, and Linux passes it over
}

// dead reports whether Linux passes the route over: all of its paths are dead.
func (r *Route) dead() bool {
	return len(r.Paths) > 0 && !slices.ContainsFunc(r.Paths, func(p Path) bool { return !p.Dead })
}

// types are the route types that `ip route` prints before the prefix.
var types = []string{
	"unicast", "local", "broadcast", "multicast", "throw", "unreachable", "prohibit", "blackhole", "nat", "anycast",
}

// Open reads the file at path, which gzip may have packed; "-" is standard input. It may be
// a pipe, as of <(ssh router ip route), but one that nobody writes to is not waited for.
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

// maxLines is many times what the internet has, so that a file without an end, as may be
// behind a pipe or a few packed bytes, does not take all memory.
const maxLines = 1 << 24

// Read reads routes, packed by gzip or not. Empty lines and those that begin
// with # are skipped. name is for errors, which say "name:line:".
func Read(name string, r io.Reader) ([]Route, error) { return read(name, r, maxLines) }

func read(name string, r io.Reader, most int) ([]Route, error) {
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
		if n++; n > most {
			return nil, fmt.Errorf("%s:%d: more than %d lines: name a file with fewer", name, n, most)
		}
		words := strings.Fields(lines.Text())
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		var err error
		if routes, err = addLine(routes, words); err != nil {
			if lines.Err() != nil {
				n--
				break // the line is what came before that
			}
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: read routes: %w", name, n+1, err)
	}
	return routes, nil
}

// addLine adds a line's route, or to the last route the next hops of a line of `nexthop`.
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

// parseRoute reads [TYPE] PREFIX [KEY VALUE]... [nexthop [KEY VALUE]...]...
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

// addPaths adds the paths of words between which there is `nexthop`.
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

// parsePrefix reads the first of a route's words. The family of `default` is
// told by the words after it.
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

// parsePath reads the pairs of key and value after a prefix or `nexthop`; more is
// what follows the next `nexthop`, nil if there is none. Keys that do not matter
// here are passed over, with or without their values, which cannot be taken for
// keys that do.
func parsePath(words []string, route *Route) (path Path, more []string, err error) {
	path.Weight = 1
	for i := 0; i < len(words); i++ {
		key := words[i]
		switch key {
		case "nexthop": // `ip -oneline` writes all in one line
			return path, words[i+1:], nil
		case "dead":
			path.Dead = true
			continue
		case "encap": // its own words are skipped; they are none of those below
			path.Encap = true
			continue
		case "via", "dev", "metric", "mtu", "weight", "from":
		default:
			continue
		}
		if i++; i < len(words) && key == "via" && (words[i] == "inet" || words[i] == "inet6") {
			i++ // the gateway is of another family than the prefix
		} else if i < len(words) && key == "mtu" && words[i] == "lock" {
			i++ // path MTU discovery shall not change it
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
