package mirror

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
)

// linuxView is what Linux has at one time, read as a whole, to verify the base by. It
// shares the parsing of messages with the mirror, and the rules in the package's
// comment, but no code that follows changes.
type linuxView struct {
	links     map[int]rtnl.Link
	objects   map[uint32]rtnl.Nexthop
	neighbors map[neighborID]fib.MAC // that can be sent to
	routes    bart.Table[linuxRoute] // the best of each prefix
	same      map[string]*rtnl.Route // one for all routes that lead the same way
	key       []byte
	said      map[*rtnl.Route]decision // by decide of ways that lead to all destinations alike
}

type linuxRoute struct {
	class uint64
	rank  int8
	way   *rtnl.Route // its type, MTU and hops alone
}

func newLinuxView() *linuxView {
	return &linuxView{
		links: map[int]rtnl.Link{}, objects: map[uint32]rtnl.Nexthop{},
		neighbors: map[neighborID]fib.MAC{}, same: map[string]*rtnl.Route{},
	}
}

// read dumps everything.
func (v *linuxView) read(conn *rtnl.Conn) error {
	queries := []rtnl.Query{rtnl.Links(), rtnl.Nexthops()}
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

func (v *linuxView) add(msg rtnl.Message) error {
	switch msg.Type {
	case unix.RTM_NEWLINK:
		var l rtnl.Link
		if err := l.Parse(msg.Data); err != nil {
			return err
		}
		v.links[l.Index] = l
	case unix.RTM_NEWNEXTHOP:
		var o rtnl.Nexthop
		if err := o.Parse(msg.Data); err != nil {
			return err
		}
		v.objects[o.ID] = o
	case unix.RTM_NEWNEIGH:
		var n rtnl.Neighbor
		if err := n.Parse(msg.Data); err != nil {
			return err
		}
		if mac := toMAC(n.Address); n.State&usableStates != 0 && mac != 0 && n.Flags&unix.NTF_PROXY == 0 && n.Addr.IsValid() && !n.Addr.IsMulticast() {
			v.neighbors[neighborID{n.Index, n.Addr}] = mac
		}
	case unix.RTM_NEWROUTE:
		var r rtnl.Route
		if err := r.Parse(msg.Data); err != nil {
			return err
		}
		v.addRoute(&r)
	}
	return nil
}

func (v *linuxView) addRoute(r *rtnl.Route) {
	ip := r.Dst.Addr()
	_, table := tables[r.Table]
	_, followed := kindOf(r)
	switch {
	case !table, !followed, r.TOS != 0, r.HasSrc, r.Flags&unix.RTM_F_CLONED != 0, ip.IsMulticast(), r.Lifetime < 0,
		r.Type == unix.RTN_UNICAST && !routable(ip):
		return
	}
	if r.NexthopID != 0 && len(r.Hops) == 0 {
		v.expand(r)
	}
	if group := v.objects[r.NexthopID].Group; len(group) == len(r.Hops) {
		for i, m := range group { // of whose weights a route's message has the lower eight bits
			r.Hops[i].Weight = uint16(m.Weight)
		}
	}
	if len(r.Hops) > 0 && !slices.ContainsFunc(r.Hops, func(h rtnl.Hop) bool { return !h.Dead }) {
		return // Linux passes it over
	}
	class := classOf(r)
	if have, ok := v.routes.Get(r.Dst); ok && (have.class < class || have.class == class && have.rank >= r.Rank) {
		return // of equal ones the first is used
	}
	v.routes.Insert(r.Dst, linuxRoute{class, r.Rank, v.wayOf(r)})
}

// expand copies the hops of the next-hop object, which Linux leaves to us where
// net.ipv4.nexthop_compat_mode is 0.
func (v *linuxView) expand(r *rtnl.Route) {
	o := v.objects[r.NexthopID]
	members := o.Group
	if members == nil {
		members = []rtnl.Member{{ID: o.ID, Weight: 1}}
	}
	for _, m := range members {
		if member := v.objects[m.ID]; member.Blackhole {
			r.Type = unix.RTN_BLACKHOLE
		} else if member.ID != 0 {
			hop := member.Hop
			hop.Weight = uint16(m.Weight)
			r.Hops = append(r.Hops, hop)
		}
	}
}

// wayOf returns the one route that stands for all with these hops.
func (v *linuxView) wayOf(r *rtnl.Route) *rtnl.Route {
	mtu := mtuOf(r)
	v.key = binary.NativeEndian.AppendUint16(append(v.key[:0], r.Family, r.Type), mtu)
	for _, h := range r.Hops {
		flags := byte(0)
		if h.Encap {
			flags = 1
		}
		gateway := h.Gateway.As16()
		v.key = binary.NativeEndian.AppendUint32(append(v.key, flags, byte(h.Gateway.BitLen())), uint32(h.Index))
		v.key = binary.NativeEndian.AppendUint16(v.key, h.Weight)
		v.key = append(v.key, gateway[:]...)
	}
	way := v.same[string(v.key)]
	if way == nil {
		way = &rtnl.Route{Family: r.Family, Type: r.Type, MTU: uint32(mtu), Hops: slices.Clone(r.Hops)}
		slices.SortFunc(way.Hops, compareHops)
		v.same[string(v.key)] = way
	}
	return way
}

// decide says what Linux would do with packets to an address if it had no links but
// the ports, and the prefix by which, as the base has it: that of the neighbour
// itself where the destination is one.
func (v *linuxView) decide(ports []port, ip netip.Addr) (netip.Prefix, decision) {
	host := netip.PrefixFrom(ip, ip.BitLen())
	p, r, ok := v.routes.LookupPrefixLPM(host)
	if !ok {
		return netip.Prefix{}, decision{kind: fib.KindNone}
	}
	if kind, _ := kindOf(r.way); kind != fib.KindForward {
		return p, decision{kind: kind}
	}
	if d, again := v.said[r.way]; again {
		return p, d
	}
	d, neighbor := v.forward(ports, r.way, ip)
	switch {
	case neighbor:
		return host, d
	case !slices.ContainsFunc(r.way.Hops, func(h rtnl.Hop) bool { return !h.Gateway.IsValid() }):
		v.said[r.way] = d
	}
	return p, d
}

// forward says which ways lead to an address, with their shares of the flows, and whether
// that is the address of a neighbour itself.
func (v *linuxView) forward(ports []port, r *rtnl.Route, ip netip.Addr) (d decision, neighbor bool) {
	ways, dead := map[string]float64{}, map[string]float64{} // their weights
	mtu := uint16(r.MTU)
	elsewhere := false
	for _, h := range r.Hops {
		link, known := v.links[h.Index]
		up := known && link.Up() && !h.Dead
		i := slices.IndexFunc(ports, func(p port) bool { return p.ifindex == h.Index })
		if i < 0 || h.Encap || link.Claimed() {
			elsewhere = elsewhere || up
			continue
		}
		to := neighborID{h.Index, h.Gateway}
		if !to.addr.IsValid() && routable(ip) {
			if mac, resolved := v.neighbors[neighborID{h.Index, ip}]; resolved {
				return share(map[string]float64{wayOf(ports[i].Name, ip, mac): 1}, mtu), true
			}
		}
		way := wayOf(ports[i].Name, to.addr, v.neighbors[to])
		if up {
			ways[way] += float64(h.Weight)
		} else {
			dead[way] += float64(h.Weight)
		}
	}
	if len(ways) == 0 && !elsewhere {
		ways = dead
	}
	if len(ways) == 0 {
		return decision{kind: fib.KindNoPort}, false
	}
	return share(ways, mtu), false
}
