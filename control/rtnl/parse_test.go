package rtnl

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

func ne32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

// body returns the data of a message: a header and attributes.
func body(header []byte, attrs ...[]byte) []byte {
	b := append([]byte(nil), header...)
	for _, a := range attrs {
		b = append(b, a...)
	}
	return b
}

func attr(kind uint16, value []byte) []byte { return request{}.attr(kind, value) }

func rtmsg(family, bits uint8, kind uint8) []byte {
	return []byte{family, bits, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, unix.RT_SCOPE_UNIVERSE, kind, 0, 0, 0, 0}
}

// rtnexthop returns an entry of RTA_MULTIPATH.
func rtnexthop(flags, hops byte, link uint32, attrs ...[]byte) []byte {
	b := append([]byte{0, 0, flags, hops}, ne32(link)...)
	for _, a := range attrs {
		b = append(b, a...)
	}
	binary.NativeEndian.PutUint16(b, uint16(len(b)))
	return b
}

func TestRouteParsesAttributes(t *testing.T) {
	multipath := append(
		rtnexthop(0, 0, 2, attr(unix.RTA_GATEWAY, ip("10.0.0.1").AsSlice())),
		rtnexthop(unix.RTNH_F_DEAD, 255, 3, attr(unix.RTA_VIA, append([]byte{unix.AF_INET6, 0}, ip("fe80::1").AsSlice()...)))...)
	for _, test := range []struct {
		name string
		data []byte
		want Route
	}{
		{"an IPv4 default route", body(rtmsg(unix.AF_INET, 0, unix.RTN_UNICAST), attr(unix.RTA_OIF, ne32(7)), attr(unix.RTA_GATEWAY, ip("10.0.0.1").AsSlice())),
			Route{Family: unix.AF_INET, Type: unix.RTN_UNICAST, Table: unix.RT_TABLE_MAIN, Dst: netip.MustParsePrefix("0.0.0.0/0"),
				Paths: []Path{{Gateway: ip("10.0.0.1"), Index: 7, Weight: 1}}}},
		{"an IPv6 default route", body(rtmsg(unix.AF_INET6, 0, unix.RTN_UNICAST), attr(unix.RTA_OIF, ne32(7))),
			Route{Family: unix.AF_INET6, Type: unix.RTN_UNICAST, Table: unix.RT_TABLE_MAIN, Dst: netip.MustParsePrefix("::/0"),
				Paths: []Path{{Index: 7, Weight: 1}}}},
		{"all attributes", body(rtmsg(unix.AF_INET, 24, unix.RTN_UNICAST),
			attr(unix.RTA_DST, ip("10.1.2.0").AsSlice()), attr(unix.RTA_TABLE, ne32(1000)), attr(unix.RTA_PRIORITY, ne32(50)),
			attr(unix.RTA_PREFSRC, ip("10.9.9.9").AsSlice()), attr(rtaNHID, ne32(44)), attr(unix.RTA_MULTIPATH, multipath),
			attr(unix.RTA_METRICS|unix.NLA_F_NESTED, body(attr(unix.RTAX_LOCK, ne32(1<<unix.RTAX_MTU)), attr(unix.RTAX_MTU, ne32(1400)), attr(unix.RTAX_ADVMSS, ne32(1360)))),
			attr(200, []byte("unknown"))),
			Route{Family: unix.AF_INET, Type: unix.RTN_UNICAST, Table: 1000, Metrics: 454372668, Metric: 50, Dst: netip.MustParsePrefix("10.1.2.0/24"),
				PrefSrc: ip("10.9.9.9"), MTU: 1400, NexthopID: 44, Multipath: true,
				Paths: []Path{{Gateway: ip("10.0.0.1"), Index: 2, Weight: 1}, {Gateway: ip("fe80::1"), Index: 3, Weight: 256, Dead: true}}}},
		{"an IPv6 route with a lifetime", body(rtmsg(unix.AF_INET6, 0, unix.RTN_UNICAST), attr(unix.RTA_OIF, ne32(7)), attr(unix.RTA_PREF, []byte{1}),
			attr(unix.RTA_CACHEINFO, body(ne32(9), ne32(9), ne32(250), make([]byte, 20)))),
			Route{Family: unix.AF_INET6, Type: unix.RTN_UNICAST, Table: unix.RT_TABLE_MAIN, Dst: netip.MustParsePrefix("::/0"),
				Pref: 1, Lifetime: 2500 * time.Millisecond, Paths: []Path{{Index: 7, Weight: 1}}}},
		{"an expired IPv6 route", body(rtmsg(unix.AF_INET6, 0, unix.RTN_UNICAST), attr(unix.RTA_OIF, ne32(7)), attr(unix.RTA_PREF, []byte{3}),
			attr(unix.RTA_CACHEINFO, body(ne32(9), ne32(9), ne32(0xffffffff), make([]byte, 20)))),
			Route{Family: unix.AF_INET6, Type: unix.RTN_UNICAST, Table: unix.RT_TABLE_MAIN, Dst: netip.MustParsePrefix("::/0"),
				Pref: -1, Lifetime: -10 * time.Millisecond, Paths: []Path{{Index: 7, Weight: 1}}}},
		{"no hops", body(rtmsg(unix.AF_INET, 8, unix.RTN_BLACKHOLE), attr(unix.RTA_DST, ip("10.0.0.0").AsSlice())),
			Route{Family: unix.AF_INET, Type: unix.RTN_BLACKHOLE, Table: unix.RT_TABLE_MAIN, Dst: netip.MustParsePrefix("10.0.0.0/8")}},
		{"a tunnel", body(rtmsg(unix.AF_INET, 8, unix.RTN_UNICAST), attr(unix.RTA_DST, ip("10.0.0.0").AsSlice()), attr(unix.RTA_OIF, ne32(7)), attr(unix.RTA_ENCAP|unix.NLA_F_NESTED, nil)),
			Route{Family: unix.AF_INET, Type: unix.RTN_UNICAST, Table: unix.RT_TABLE_MAIN, Dst: netip.MustParsePrefix("10.0.0.0/8"),
				Paths: []Path{{Index: 7, Weight: 1, Encap: true}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Route{Paths: make([]Path, 3)} // reused from an earlier route
			require.NoError(t, got.Parse(test.data))
			test.want.Protocol = unix.RTPROT_STATIC
			if len(got.Paths) == 0 {
				got.Paths = nil
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

func TestMalformedMessagesAreErrors(t *testing.T) {
	var (
		route    Route
		link     Link
		neighbor Neighbor
		nexthop  NexthopObject
		address  Address
		rule     Rule
	)
	long := func(b []byte) []byte { // sets the length one byte too long
		b = append([]byte(nil), b...)
		binary.NativeEndian.PutUint16(b, uint16(len(b)+1))
		return b
	}
	dst := attr(unix.RTA_DST, ip("10.0.0.0").AsSlice())
	for _, test := range []struct {
		name  string
		parse func([]byte) error
		data  []byte
	}{
		{"a route without a header", route.Parse, make([]byte, unix.SizeofRtMsg-1)},
		{"a prefix longer than the address", route.Parse, body(rtmsg(unix.AF_INET, 33, unix.RTN_UNICAST), dst)},
		{"an address of the other family", route.Parse, body(rtmsg(unix.AF_INET6, 8, unix.RTN_UNICAST), dst)},
		{"an address of 5 bytes", route.Parse, body(rtmsg(unix.AF_INET, 8, unix.RTN_UNICAST), attr(unix.RTA_DST, make([]byte, 5)))},
		{"an attribute beyond the end", route.Parse, body(rtmsg(unix.AF_INET, 8, unix.RTN_UNICAST), long(dst))},
		{"an attribute shorter than its header", route.Parse, body(rtmsg(unix.AF_INET, 8, unix.RTN_UNICAST), []byte{3, 0, 1, 0})},
		{"a metric of 2 bytes", route.Parse, body(rtmsg(unix.AF_INET, 8, unix.RTN_UNICAST), dst, attr(unix.RTA_PRIORITY, make([]byte, 2)))},
		{"a via without an address", route.Parse, body(rtmsg(unix.AF_INET, 8, unix.RTN_UNICAST), dst, attr(unix.RTA_VIA, make([]byte, 2)))},
		{"a via of 1 byte", route.Parse, body(rtmsg(unix.AF_INET, 8, unix.RTN_UNICAST), dst, attr(unix.RTA_VIA, make([]byte, 1)))},
		{"a next hop beyond the end", route.Parse, body(rtmsg(unix.AF_INET, 8, unix.RTN_UNICAST), dst, attr(unix.RTA_MULTIPATH, long(rtnexthop(0, 0, 1))))},
		{"a next hop with a broken attribute", route.Parse, body(rtmsg(unix.AF_INET, 8, unix.RTN_UNICAST), dst, attr(unix.RTA_MULTIPATH, rtnexthop(0, 0, 1, long(dst))))},
		{"a route's MTU of 2 bytes", route.Parse, body(rtmsg(unix.AF_INET, 8, unix.RTN_UNICAST), dst, attr(unix.RTA_METRICS, attr(unix.RTAX_MTU, make([]byte, 2))))},
		{"a link without a header", link.Parse, make([]byte, 15)},
		{"a link with a broken kind", link.Parse, body(make([]byte, 16), attr(unix.IFLA_LINKINFO, long(dst)))},
		{"an MTU of 1 byte", link.Parse, body(make([]byte, 16), attr(unix.IFLA_MTU, make([]byte, 1)))},
		{"a neighbor without a header", neighbor.Parse, make([]byte, 11)},
		{"a neighbor with half an address", neighbor.Parse, body(make([]byte, 12), attr(unix.NDA_DST, make([]byte, 3)))},
		{"a next-hop object without a header", nexthop.Parse, make([]byte, 7)},
		{"a next-hop object with a short number", nexthop.Parse, body(make([]byte, 8), attr(unix.NHA_ID, make([]byte, 3)))},
		{"an address message without a header", address.Parse, make([]byte, 7)},
		{"a rule without a header", rule.Parse, make([]byte, 11)},
	} {
		if err := test.parse(test.data); err == nil {
			t.Errorf("%s: no error", test.name)
		}
	}
}

func TestNexthopParsesGatewaysAndGroups(t *testing.T) {
	member := func(id uint32, weight uint16) []byte {
		return append(ne32(id), byte(weight-1), byte((weight-1)>>8), 0, 0)
	}
	for _, test := range []struct {
		name string
		data []byte
		want NexthopObject
	}{
		{"a gateway", body([]byte{unix.AF_INET, 0, 4, 0, 0, 0, 0, 0}, attr(unix.NHA_ID, ne32(9)), attr(unix.NHA_OIF, ne32(3)), attr(unix.NHA_GATEWAY, ip("10.0.0.1").AsSlice())),
			NexthopObject{ID: 9, Family: unix.AF_INET, Protocol: 4, Path: Path{Gateway: ip("10.0.0.1"), Index: 3, Weight: 1}}},
		{"a group", body(make([]byte, 8), attr(unix.NHA_ID, ne32(10)), attr(unix.NHA_GROUP, append(member(1, 1), member(2, 300)...))),
			NexthopObject{ID: 10, Path: Path{Weight: 1}, Group: []Member{{1, 1}, {2, 300}}}},
		{"a blackhole", body(make([]byte, 8), attr(unix.NHA_ID, ne32(11)), attr(unix.NHA_BLACKHOLE, nil)),
			NexthopObject{ID: 11, Blackhole: true, Path: Path{Weight: 1}}},
	} {
		var got NexthopObject
		if err := got.Parse(test.data); err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v (%v), want %+v", test.name, got, err, test.want)
		}
	}
}

func TestLinksNeighborsAndRulesAreParsed(t *testing.T) {
	mac := []byte{2, 0, 0, 0, 0, 1}
	var l Link
	ifinfo := append([]byte{0, 0, 0, 0}, body(ne32(5), ne32(unix.IFF_UP|unix.IFF_LOWER_UP), ne32(0))...)
	require.NoError(t, l.Parse(body(ifinfo, attr(unix.IFLA_IFNAME, []byte("lan0\x00")), attr(unix.IFLA_MTU, ne32(1400)), attr(unix.IFLA_ADDRESS, mac))))
	if want := (Link{Index: 5, Flags: unix.IFF_UP | unix.IFF_LOWER_UP, Name: "lan0", MTU: 1400, Address: [6]byte(mac)}); l != want {
		t.Errorf("link %+v, want %+v", l, want)
	}
	if l.InVRF() {
		t.Error("a link without a master is in a VRF")
	}
	info := attr(unix.IFLA_LINKINFO, body(attr(unix.IFLA_INFO_KIND, []byte("veth\x00")), attr(unix.IFLA_INFO_SLAVE_KIND, []byte("vrf\x00")), attr(unix.IFLA_INFO_SLAVE_DATA, attr(1, ne32(10)))))
	var slave Link
	if err := slave.Parse(body(ifinfo, attr(unix.IFLA_MASTER, ne32(9)), info)); err != nil || !slave.InVRF() || slave.Master != 9 {
		t.Errorf("a link of VRF 9: %+v (%v)", slave, err)
	}
	if !l.Up() {
		t.Error("a link with a carrier is not up")
	}
	if l.Flags = unix.IFF_UP; l.Up() {
		t.Error("a link without a carrier is up")
	}
	if l.Flags = unix.IFF_LOWER_UP; l.Up() {
		t.Error("a link without IFF_UP is up")
	}

	var n Neighbor
	ndmsg := append([]byte{unix.AF_INET, 0, 0, 0}, append(ne32(5), unix.NUD_STALE, 0, unix.NTF_ROUTER, 0)...)
	require.NoError(t, n.Parse(body(ndmsg, attr(unix.NDA_DST, ip("10.0.0.9").AsSlice()), attr(unix.NDA_LLADDR, mac))))
	if want := (Neighbor{Family: unix.AF_INET, Index: 5, State: unix.NUD_STALE, Flags: unix.NTF_ROUTER, Addr: ip("10.0.0.9"), Address: [6]byte(mac)}); n != want {
		t.Errorf("neighbor %+v, want %+v", n, want)
	}

	plain := []byte{unix.AF_INET, 0, 0, 0, unix.RT_TABLE_MAIN, 0, 0, unix.FR_ACT_TO_TBL, 0, 0, 0, 0}
	for _, test := range []struct {
		name  string
		data  []byte
		plain bool
	}{
		{"all to main", body(plain, attr(unix.FRA_TABLE, ne32(254)), attr(unix.FRA_SUPPRESS_PREFIXLEN, ne32(0xffffffff)), attr(unix.FRA_PRIORITY, ne32(32766)), attr(unix.FRA_PROTOCOL, []byte{2})), true},
		{"by mark", body(plain, attr(unix.FRA_FWMARK, ne32(1))), false},
		{"by source", body(append([]byte{unix.AF_INET, 0, 8}, plain[3:]...), attr(unix.FRA_SRC, make([]byte, 4))), false},
		{"suppressed", body(plain, attr(unix.FRA_SUPPRESS_PREFIXLEN, ne32(0))), false},
		{"by ingress interface", body(plain, attr(unix.FRA_IIFNAME, []byte("lan0\x00"))), true},
		{"by an interface that does not exist", body(append(append([]byte(nil), plain[:8]...), ne32(8)...), attr(unix.FRA_IIFNAME, []byte("lan0\x00"))), true},
		{"by other interfaces", body(append(append([]byte(nil), plain[:8]...), ne32(2)...), attr(unix.FRA_IIFNAME, []byte("lan0\x00"))), false},
		{"a blackhole", append(append([]byte(nil), plain[:7]...), unix.FR_ACT_BLACKHOLE, 0, 0, 0, 0), false},
	} {
		var r Rule
		if err := r.Parse(test.data); err != nil || r.Plain != test.plain {
			t.Errorf("rule %s: plain %v (%v), want %v", test.name, r.Plain, err, test.plain)
		}
	}
}

func TestNextSplitsMessages(t *testing.T) {
	b := append(newRequest(1, 2, 3, 4, 5).bytes(), 0, 0) // 18 bytes, padded
	b = append(b, newRequest(6, 7, 8).bytes()...)
	one, rest, err := Next(b)
	if err != nil || one.Type != 1 || one.Seq != 3 || len(one.Data) != 2 {
		t.Fatalf("%+v, %v", one, err)
	}
	two, rest, err := Next(rest)
	if err != nil || two.Type != 6 || two.Seq != 8 || len(two.Data) != 0 || len(rest) != 0 {
		t.Fatalf("%+v, %v, %d left", two, err, len(rest))
	}
	for _, bad := range [][]byte{b[:15], b[:17], {15, 0, 0, 0, 15: 0}} {
		if _, _, err := Next(bad); !errors.Is(err, ErrTruncated) {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
}

func TestParsingRoutesAllocatesNothing(t *testing.T) {
	data := body(rtmsg(unix.AF_INET, 8, unix.RTN_UNICAST), attr(unix.RTA_DST, ip("10.0.0.0").AsSlice()),
		attr(unix.RTA_MULTIPATH, append(rtnexthop(0, 0, 2), rtnexthop(0, 0, 3)...)))
	r := Route{Paths: make([]Path, 0, 4)}
	if n := testing.AllocsPerRun(100, func() {
		require.NoError(t, r.Parse(data))
	}); n != 0 {
		t.Errorf("%v allocations per route", n)
	}
}

// FuzzParse checks that no parser panics, and that accepted routes have a masked destination and
// weights.
func FuzzParse(f *testing.F) {
	dst := attr(unix.RTA_DST, ip("10.0.0.0").AsSlice())
	f.Add(body(rtmsg(unix.AF_INET, 8, unix.RTN_UNICAST), dst, attr(unix.RTA_OIF, ne32(1))))
	f.Add(body(rtmsg(unix.AF_INET, 8, unix.RTN_UNICAST), dst, attr(unix.RTA_MULTIPATH, rtnexthop(0, 0, 1, dst))))
	f.Add(body(rtmsg(unix.AF_INET6, 128, unix.RTN_LOCAL), attr(unix.RTA_DST, ip("fd00::1").AsSlice())))
	f.Add(body(make([]byte, 8), attr(unix.NHA_GROUP, make([]byte, 24))))
	f.Add(body(make([]byte, 12), attr(unix.NDA_DST, make([]byte, 16)), attr(unix.NDA_LLADDR, make([]byte, 6))))
	f.Add(body(make([]byte, 16), attr(unix.IFLA_IFNAME, []byte("lan0"))))
	f.Fuzz(func(t *testing.T, data []byte) {
		var (
			route    Route
			link     Link
			neighbor Neighbor
			nexthop  NexthopObject
			address  Address
			rule     Rule
		)
		if err := route.Parse(data); err == nil && (route.Family == unix.AF_INET || route.Family == unix.AF_INET6) {
			if route.Dst != route.Dst.Masked() || route.Dst.Addr().Is4() != (route.Family == unix.AF_INET) {
				t.Errorf("destination %v of family %d", route.Dst, route.Family)
			}
			for _, p := range route.Paths {
				if p.Weight == 0 {
					t.Error("a path without weight")
				}
			}
		}
		_ = link.Parse(data)
		_ = neighbor.Parse(data)
		_ = nexthop.Parse(data)
		_ = address.Parse(data)
		_ = rule.Parse(data)
		_ = new(Netconf).Parse(data)
		for rest := data; len(rest) > 0; {
			var err error
			var msg Message
			if msg, rest, err = Next(rest); err != nil {
				break
			}
			_ = msg.Err()
		}
	})
}

func TestBondsAndMembersAreParsed(t *testing.T) {
	ifinfo := append([]byte{0, 0, 0, 0}, body(ne32(5), ne32(unix.IFF_UP), ne32(0))...)
	nested := func(data ...[]byte) []byte {
		info := [][]byte{attr(unix.IFLA_INFO_KIND, []byte("bond\x00")), attr(unix.IFLA_INFO_DATA, body(nil, data...))}
		return body(ifinfo, attr(unix.IFLA_LINKINFO, body(nil, info...)))
	}
	var l Link
	aggregator := attr(unix.IFLA_BOND_AD_INFO, body(attr(unix.IFLA_BOND_AD_INFO_AGGREGATOR, []byte{3, 0}), attr(unix.IFLA_BOND_AD_INFO_NUM_PORTS, []byte{2, 0})))
	require.NoError(t, l.Parse(nested(attr(unix.IFLA_BOND_MODE, []byte{Bond8023AD}), attr(unix.IFLA_BOND_MIIMON, ne32(100)), attr(unix.IFLA_BOND_ALL_SLAVES_ACTIVE, []byte{1}), aggregator)))
	if want := (Bond{Mode: Bond8023AD, Aggregator: 3, AllActive: true}); l.Kind != "bond" || l.Bond != want {
		t.Errorf("%s %+v, want %+v", l.Kind, l.Bond, want)
	}
	require.NoError(t, l.Parse(nested(attr(unix.IFLA_BOND_MODE, []byte{BondActiveBackup}), attr(unix.IFLA_BOND_ACTIVE_SLAVE, ne32(7)))))
	if want := (Bond{Mode: BondActiveBackup, Active: 7}); l.Bond != want {
		t.Errorf("%+v, want %+v", l.Bond, want)
	}
	if err := l.Parse(nested(attr(unix.IFLA_BOND_ACTIVE_SLAVE, []byte{1}))); err == nil {
		t.Error("an index of one byte is no error")
	}
	member := func(kind string, data ...[]byte) []byte {
		return body(ifinfo, attr(unix.IFLA_MASTER, ne32(9)), attr(unix.IFLA_LINKINFO, body(attr(unix.IFLA_INFO_SLAVE_KIND, []byte(kind+"\x00")), attr(unix.IFLA_INFO_SLAVE_DATA, body(nil, data...)))))
	}
	state := [][]byte{attr(unix.IFLA_BOND_SLAVE_STATE, []byte{1}), attr(unix.IFLA_BOND_SLAVE_MII_STATUS, []byte{2}), attr(unix.IFLA_BOND_SLAVE_AD_AGGREGATOR_ID, []byte{4, 0})}
	require.NoError(t, l.Parse(member("bond", state...)))
	if want := (BondMember{Backup: true, Failed: true, Aggregator: 4}); l.SlaveOf != "bond" || l.Member != want {
		t.Errorf("member of %s: %+v, want %+v", l.SlaveOf, l.Member, want)
	}
	require.NoError(t, l.Parse(member("bridge", state...)))
	if l.Member != (BondMember{}) {
		t.Errorf("the state of a bridge port is that of a member: %+v", l.Member)
	}
	if err := l.Parse(member("bond", attr(unix.IFLA_BOND_SLAVE_AD_AGGREGATOR_ID, []byte{1}))); err == nil {
		t.Error("an aggregator of one byte is no error")
	}
}
