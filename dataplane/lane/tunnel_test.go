package lane_test

import (
	"net/netip"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/lane"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec/gateway"
)

// Packets that are routed over an XFRM interface are not in a lane of plain packets, as all that IPsec encrypts.
func TestPacketsToXFRMInterfacesAreNotPlain(t *testing.T) {
	f, g := fib.New(1), &gateway.Gateway{}
	id, err := f.NewNextHop(fib.KindNoPort, fib.Path{Adjacency: 7, Weight: 1})
	require.NoError(t, err)
	require.NoError(t, f.IPv4.Insert(netip.MustParsePrefix("10.30.0.0/16"), id))
	require.NoError(t, f.IPv6.Insert(netip.MustParsePrefix("fd30::/64"), id))
	for _, shape := range [][]lane.Lane{lane.Default(), {
		{Name: "voice", Match: []lane.Match{{DSCP: 1 << 46, AnyProtocol: true}}},
		{Name: "plain", Match: []lane.Match{{AnyProtocol: true, Plain: true}}}, {Name: "rest"},
	}} {
		lanes, err := lane.Compile(shape, g)
		require.NoError(t, err)
		lanes.RouteBy(f)
		k, last := lanes.NewClassifier(), uint8(len(shape)-1)
		mem := make([]byte, 4*2048)
		var frames []batch.Frame
		for i, p := range [][]byte{
			testutil.UDP4("192.0.2.1", "10.30.0.1", 1, 2, make([]byte, 40)...), testutil.UDP4("192.0.2.1", "10.31.0.1", 1, 2, make([]byte, 40)...),
			testutil.UDP6("2001:db8::1", "fd30::1", 1, 2, make([]byte, 40)...), testutil.UDP6("2001:db8::1", "fd31::1", 1, 2, make([]byte, 40)...),
		} {
			copy(mem[2048*i:], p)
			frames = append(frames, batch.Frame{Addr: uint32(2048 * i), Len: uint16(len(p))})
		}
		for _, interfaces := range [][]gateway.Interface{nil, {{IfID: 7, Up: true}}} {
			g.SetInterfaces(interfaces)
			want := [4]uint8{last - 1, last - 1, last - 1, last - 1}
			if interfaces != nil {
				want[0], want[2] = last, last
			}
			var got [4]uint8
			k.Classify(mem, frames, got[:])
			if got != want {
				t.Errorf("%d lanes, interfaces %v: lanes %v, want %v", len(shape), interfaces, got, want)
			}
			if n := testing.AllocsPerRun(100, func() { k.Classify(mem, frames, got[:]) }); n != 0 {
				t.Errorf("Classify allocates %v times", n)
			}
		}
		g.SetInterfaces(nil)
	}
}
