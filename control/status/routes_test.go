package status

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/internal/require"
)

var (
	direct = mirror.RouteInfo{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Type: "unicast", Kind: "forward", Protocol: "kernel", Installed: true,
		Paths: []mirror.PathInfo{{Dev: "lan0", Weight: 1}}}
	multipath = mirror.RouteInfo{Prefix: netip.MustParsePrefix("2001:db8::/32"), Type: "unicast", Kind: "forward", Protocol: "bird", MTU: 1400, Installed: true,
		Paths: []mirror.PathInfo{
			{Via: netip.MustParseAddr("fe80::1"), Dev: "lan0", Weight: 1, MAC: "02:00:00:00:00:01"},
			{Via: netip.MustParseAddr("fe80::2"), Dev: "wan0", Weight: 3, Dead: true}}}
	blackhole = mirror.RouteInfo{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Type: "blackhole", Kind: "blackhole", Protocol: "static"}
)

func TestRouteTableMarksUnusedRoutes(t *testing.T) {
	var b strings.Builder
	table, err := NewRouteTable(&b)
	require.NoError(t, err)
	for _, r := range []mirror.RouteInfo{direct, multipath, blackhole} {
		require.NoError(t, table.Write(r))
	}
	want := `PREFIX                         ACTION       PROTOCOL  NEXT HOP
192.0.2.0/24                   forward      kernel    direct on lan0
2001:db8::/32                  forward      bird      fe80::1 on lan0 weight 1, fe80::2 on wan0 weight 3 (dead), mtu 1400
10.0.0.0/8                     blackhole    static    (unused: better route exists)
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestNeighborTableShowsUnresolvedNeighbors(t *testing.T) {
	var b strings.Builder
	err := WriteNeighbors(&b, []mirror.NeighborInfo{
		{Address: netip.MustParseAddr("192.0.2.1"), Dev: "lan0", MAC: "02:00:00:00:00:01", State: "reachable", Used: true},
		{Address: netip.MustParseAddr("fe80::2"), Dev: "wan0", State: "incomplete"},
	})
	require.NoError(t, err)
	want := `ADDRESS    PORT  MAC                STATE       USED
192.0.2.1  lan0  02:00:00:00:00:01  reachable   yes
fe80::2    wan0  -                  incomplete  no
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestAnswerTableHasOneRowPerPath(t *testing.T) {
	var b strings.Builder
	table := NewAnswerTable(&b)
	err := table.Write([]Answer{
		AnswerOf(netip.MustParseAddr("192.0.2.7"), direct, true),
		AnswerOf(netip.MustParseAddr("2001:db8::1"), multipath, true),
		AnswerOf(netip.MustParseAddr("10.1.1.1"), blackhole, true),
		AnswerOf(netip.MustParseAddr("203.0.113.1"), mirror.RouteInfo{}, false),
	})
	require.NoError(t, err)
	want := `ADDRESS      PREFIX         ACTION             NEXT HOP  PORT
192.0.2.7    192.0.2.0/24   forward            direct    lan0
2001:db8::1  2001:db8::/32  forward, mtu 1400  fe80::1   lan0 weight 1
                                               fe80::2   wan0 weight 3 (dead)
10.1.1.1     10.0.0.0/8     blackhole          -         -
203.0.113.1  -              no route           -         -
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestAnswerJSONKeysAreStable(t *testing.T) {
	tests := []struct {
		answer Answer
		want   string
	}{
		{AnswerOf(netip.MustParseAddr("2001:db8::1"), multipath, true), `{"address":"2001:db8::1","found":true,"prefix":"2001:db8::/32","action":"forward","mtu":1400,"paths":[` +
			`{"via":"fe80::1","port":"lan0","mac":"02:00:00:00:00:01","weight":1},{"via":"fe80::2","port":"wan0","weight":3,"dead":true}]}`},
		{AnswerOf(netip.MustParseAddr("203.0.113.1"), mirror.RouteInfo{}, false), `{"address":"203.0.113.1","found":false}`},
	}
	for _, tt := range tests {
		got, err := json.Marshal(tt.answer)
		require.NoError(t, err)
		if diff := cmp.Diff(tt.want, string(got)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}
