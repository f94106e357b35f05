package mirror

import (
	"encoding/binary"
	"math"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
)

// linuxDump is a dump of Linux's links, routes, next-hop objects and neighbors, to verify the FIB. It
// shares the parsing of messages with the mirror, but no code that applies changes.
type linuxDump struct {
	links     map[int]rtnl.Link
	objects   map[uint32]rtnl.NexthopObject
	neighbors map[neighborID]fib.MAC             // usable
	routes    map[uint32]*bart.Table[linuxRoute] // best route of each prefix, of VRFs by table; 0: main
	rules     map[string][]ingressRule           // by ingress interface
	byRules   map[uint32]bool                    // tables of these rules
	same      map[string]*rtnl.Route             // one for all routes with the same paths
	key       []byte
	decisions map[*rtnl.Route]decision // cache of decide, for routes without on-link destinations
	tunnels   bool                     // routes over XFRM interfaces are supported
	vrfs      bool                     // ports may be in VRFs
}

type linuxRoute struct {
	priority uint64
	pref     int8
	route    *rtnl.Route // type, MTU and paths only
}

func newLinuxDump() *linuxDump {
	return &linuxDump{
		links: map[int]rtnl.Link{}, objects: map[uint32]rtnl.NexthopObject{},
		neighbors: map[neighborID]fib.MAC{}, same: map[string]*rtnl.Route{}, rules: map[string][]ingressRule{}, byRules: map[uint32]bool{}, routes: map[uint32]*bart.Table[linuxRoute]{0: {}},
	}
}

// read dumps everything.
func (v *linuxDump) read(conn *rtnl.Conn) error {
	queries := []rtnl.Query{rtnl.Links(), rtnl.NexthopObjects()}
	for _, f := range families {
		queries = append(queries, rtnl.Rules(f)) // they name tables
	}
	for _, f := range families {
		queries = append(queries, rtnl.Neighbors(f), rtnl.Routes(f))
	}
	for _, q := range queries {
		if err := conn.Dump(q, v.add); err != nil {
			return err
		}
	}
	return nil
}

func (v *linuxDump) add(msg rtnl.Message) error {
	switch msg.Type {
	case unix.RTM_NEWLINK:
		return rtnl.Parse(msg, func(l *rtnl.Link) {
			v.links[l.Index] = *l
			if _, own := tables[l.VRFTable]; v.vrfs && l.Kind == "vrf" && !own {
				v.routes[l.VRFTable] = &bart.Table[linuxRoute]{}
			}
		})
	case unix.RTM_NEWNEXTHOP:
		return rtnl.Parse(msg, func(o *rtnl.NexthopObject) { v.objects[o.ID] = *o })
	case unix.RTM_NEWNEIGH:
		return rtnl.Parse(msg, func(n *rtnl.Neighbor) {
			if mac := toMAC(n.Address); n.State&usableStates != 0 && mac != 0 && n.Flags&unix.NTF_PROXY == 0 && n.Addr.IsValid() && !n.Addr.IsMulticast() {
				v.neighbors[neighborID{n.Index, n.Addr}] = mac
			}
		})
	case unix.RTM_NEWRULE:
		return rtnl.Parse(msg, v.addRule)
	case unix.RTM_NEWROUTE:
		return rtnl.Parse(msg, v.addRoute)
	}
	return nil
}

func (v *linuxDump) addRule(r *rtnl.Rule) {
	if !v.vrfs || r.Ingress == "" || r.Family != unix.AF_INET && r.Family != unix.AF_INET6 {
		return
	}
	v.rules[r.Ingress] = append(v.rules[r.Ingress], ingressRule{family: familyIndex(r.Family), priority: r.Priority, table: r.Table, plain: r.Plain})
	if _, own := tables[r.Table]; !own && v.routes[r.Table] == nil {
		v.routes[r.Table], v.byRules[r.Table] = &bart.Table[linuxRoute]{}, true
	}
}

func (v *linuxDump) addRoute(r *rtnl.Route) {
	ip := r.Dst.Addr()
	id := r.Table
	if _, main := tables[id]; main {
		id = 0
	}
	routes, tableOK := v.routes[id]
	_, kindOK := kindOf(r)
	switch {
	case !tableOK, !kindOK, r.TOS != 0, r.HasSrc, r.Flags&unix.RTM_F_CLONED != 0, ip.IsMulticast(), r.Lifetime < 0,
		r.Type == unix.RTN_UNICAST && !routable(ip):
		return
	}
	if r.NexthopID != 0 && len(r.Paths) == 0 {
		v.expand(r)
	}
	if group := v.objects[r.NexthopID].Group; len(group) == len(r.Paths) {
		for i, m := range group { // a route message truncates weights to 8 bits
			r.Paths[i].Weight = uint16(m.Weight)
		}
	}
	if len(r.Paths) > 0 && !slices.ContainsFunc(r.Paths, func(p rtnl.Path) bool { return !p.Dead }) {
		return // ignored by Linux
	}
	priority := priorityOf(r)
	if have, ok := routes.Get(r.Dst); ok && (have.priority < priority || have.priority == priority && have.pref >= r.Pref) {
		return // the first of equal routes is used
	}
	routes.Insert(r.Dst, linuxRoute{priority, r.Pref, v.intern(r)})
}

// expand copies the paths of the next-hop object, which the route lacks if
// net.ipv4.nexthop_compat_mode is 0.
func (v *linuxDump) expand(r *rtnl.Route) {
	o := v.objects[r.NexthopID]
	members := o.Group
	if members == nil {
		members = []rtnl.Member{{ID: o.ID, Weight: 1}}
	}
	for _, m := range members {
		if member := v.objects[m.ID]; member.Blackhole {
			r.Type = unix.RTN_BLACKHOLE
		} else if member.ID != 0 {
			path := member.Path
			path.Weight = uint16(m.Weight)
			r.Paths = append(r.Paths, path)
		}
	}
}

// intern returns one shared route for all routes with these paths.
func (v *linuxDump) intern(r *rtnl.Route) *rtnl.Route {
	mtu := mtuOf(r)
	v.key = binary.NativeEndian.AppendUint16(append(v.key[:0], r.Family, r.Type), mtu)
	for _, p := range r.Paths {
		flags := byte(0)
		if p.Encap {
			flags = 1
		}
		gateway := p.Gateway.As16()
		v.key = binary.NativeEndian.AppendUint32(append(v.key, flags, byte(p.Gateway.BitLen())), uint32(p.Index))
		v.key = binary.NativeEndian.AppendUint16(v.key, p.Weight)
		v.key = append(v.key, gateway[:]...)
	}
	shared := v.same[string(v.key)]
	if shared == nil {
		shared = &rtnl.Route{Family: r.Family, Type: r.Type, MTU: uint32(mtu), Paths: slices.Clone(r.Paths)}
		slices.SortFunc(shared.Paths, comparePaths)
		v.same[string(v.key)] = shared
	}
	return shared
}

// decide returns the decision of Linux for an address in a table if the ports were its only links, and
// the matching prefix: the host prefix for a neighbor.
func (v *linuxDump) decide(ports []port, table uint32, ip netip.Addr) (netip.Prefix, decision) {
	host := netip.PrefixFrom(ip, ip.BitLen())
	p, r, ok := v.routes[table].LookupPrefixLPM(host)
	if !ok {
		return netip.Prefix{}, decision{kind: fib.KindNone}
	}
	if kind, _ := kindOf(r.route); kind != fib.KindForward {
		return p, decision{kind: kind}
	}
	if d, ok := v.decisions[r.route]; ok {
		return p, d
	}
	d, neighbor := v.forward(ports, r.route, ip)
	switch {
	case neighbor:
		return host, d
	case !slices.ContainsFunc(r.route.Paths, func(p rtnl.Path) bool { return !p.Gateway.IsValid() }):
		v.decisions[r.route] = d
	}
	return p, d
}

// forward returns the paths to an address with their shares of the flows, and whether the
// address is a neighbor.
func (v *linuxDump) forward(ports []port, r *rtnl.Route, ip netip.Addr) (d decision, neighbor bool) {
	live, dead, tunnels := map[string]float64{}, map[string]float64{}, map[string]float64{} // weights
	mtu, least := uint16(r.MTU), uint32(math.MaxUint16)
	if r.MTU != 0 {
		least = r.MTU
	}
	elsewhereUp := false
	for _, p := range r.Paths {
		link, ok := v.links[p.Index]
		up := ok && link.Up() && !p.Dead
		name := v.portName(ports, p.Index, 0)
		if v.tunnels && name == "" && link.Kind == "xfrm" && link.IfID != 0 && !link.Foreign && !link.Claimed() && !p.Encap {
			if up {
				tunnels[tunnelName(link.IfID)] += float64(p.Weight)
				least = min(least, link.MTU)
			}
			continue
		}
		if name == "" || p.Encap {
			elsewhereUp = elsewhereUp || up
			continue
		}
		to := neighborID{p.Index, p.Gateway}
		if !to.addr.IsValid() && routable(ip) {
			if mac, ok := v.neighbors[neighborID{p.Index, ip}]; ok {
				return share(map[string]float64{pathName(name, ip, mac): 1}, mtu), true
			}
		}
		path := pathName(name, to.addr, v.neighbors[to])
		if up {
			live[path] += float64(p.Weight)
		} else {
			dead[path] += float64(p.Weight)
		}
	}
	if len(tunnels) > 0 {
		return shareOf(fib.KindNoPort, tunnels, uint16(least)), false
	}
	if len(live) == 0 && !elsewhereUp {
		live = dead
	}
	if len(live) == 0 {
		return decision{kind: fib.KindNoPort}, false
	}
	return share(live, mtu), false
}

// routed is state.routed for a dumped link.
func (v *linuxDump) routed(l rtnl.Link) bool { return l.Master == 0 || l.InVRF() && v.vrfs }

// portName returns the name of the port that a link is, behind a number of tags, "" for none.
func (v *linuxDump) portName(ports []port, index, tags int) string {
	link, known := v.links[index]
	if i := slices.IndexFunc(ports, func(p port) bool { return p.ifindex == index }); i >= 0 && (!link.Claimed() || v.routed(link)) {
		return ports[i].Name
	}
	if known && link.Kind == "bond" && v.routed(link) && slices.ContainsFunc(ports, func(p port) bool { return p.Bond != "" && (p.Bond == link.Name || v.links[p.ifindex].Master == index) }) {
		return link.Name
	}
	if known && link.Kind == "macvlan" && v.routed(link) && link.Master == v.links[link.Parent].Master && link.MacvlanMode != rtnl.MacvlanPassthru && link.MacvlanMode != rtnl.MacvlanSource {
		return v.portName(ports, link.Parent, tags)
	}
	if !known || link.Kind != "vlan" || !v.routed(link) || tags == fib.MaxTags || v.portName(ports, link.Parent, tags+1) == "" {
		return ""
	}
	return link.Name
}
