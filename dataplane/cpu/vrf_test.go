package cpu

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
)

// Each packet of a chunk is looked up in the VRF of its own port, whatever the ports of the others, also if the router
// itself made it. The source of a packet is looked up there, too.
func TestPacketsAreLookedUpInTheVRFOfTheirPort(t *testing.T) {
	w := newWorld(t)
	rnd := rand.New(rand.NewPCG(3, 3))
	kinds := map[fib.Kind]batch.Reason{fib.KindBlackhole: batch.Blackhole, fib.KindUnreachable: batch.Unreachable, fib.KindProhibit: batch.Prohibit, fib.KindNoTable: batch.NoTable}
	hops := map[fib.NextHopID]batch.Reason{0: batch.NoRoute}
	var ids []fib.NextHopID
	for kind, reason := range kinds {
		id, err := w.Net.NewNextHop(kind)
		require.NoError(t, err)
		hops[id] = reason
		ids = append(ids, id)
	}
	for port := uint16(0); port < 4; port += 2 { // the ports between have none
		vrf, err := w.Net.NewVRF()
		require.NoError(t, err)
		w.Net.SetPortVRF(port, vrf)
		for net := range 8 {
			require.NoError(t, w.Net.IPv4.VRF(int(vrf)).Insert(netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/16", net)), ids[rnd.IntN(4)]))
			require.NoError(t, w.Net.IPv6.VRF(int(vrf)).Insert(netip.MustParsePrefix(fmt.Sprintf("fd%02x::/64", net)), ids[rnd.IntN(4)]))
		}
	}
	var frames [][]byte
	var to []netip.Addr
	for range 1000 {
		to = append(to, netip.MustParseAddr([]string{fmt.Sprintf("10.%d.0.7", rnd.IntN(12)), fmt.Sprintf("fd%02x::7", rnd.IntN(12))}[rnd.IntN(2)]))
		if dst := to[len(to)-1]; dst.Is4() {
			frames = append(frames, to4(dst.String()))
		} else {
			frames = append(frames, to6(dst.String()))
		}
	}
	w.Submit(0, frames...)
	for _, rpf := range []fib.RPFMode{fib.RPFOff, fib.RPFLoose} {
		for i, f := range frames { // now by random ports
			port := uint16(rnd.IntN(4))
			w.Net.SetRPF(port, fib.RPF{IPv4: rpf, IPv6: rpf})
			copy(w.Received(i), f)
			w.Chunk.In[i].Origin = batch.From(port)
			if rnd.IntN(4) == 0 {
				w.Chunk.In[i].Origin = batch.From(port).With(batch.Own)
			}
		}
		w.Engine.Submit(w.Chunk)
		for i, dst := range to {
			o := w.Chunk.In[i].Origin
			id := w.Net.LookupIPv6(o.Port(), dst.As16())
			if dst.Is4() {
				b := dst.As4()
				id = w.Net.LookupIPv4(o.Port(), uint32(b[0])<<24|uint32(b[1])<<16|uint32(b[2])<<8|uint32(b[3]))
			}
			want, inVRF := hops[id]
			got := w.Chunk.Out[i].Verdict
			switch {
			case rpf == fib.RPFLoose && !o.Has(batch.Own) && w.Net.PortVRF(o.Port()) != 0: // the VRF has no route to any source
				if got != batch.Drop(batch.ReversePath) {
					t.Fatalf("port %d to %v: %v, though its source has no route in the VRF", o.Port(), dst, got)
				}
			case rpf == fib.RPFLoose && !o.Has(batch.Own): // table main has no route to the sources either
			case inVRF && got != batch.Drop(want):
				t.Fatalf("port %d to %v: %v, want %v", o.Port(), dst, got, want)
			case !inVRF && w.Net.PortVRF(o.Port()) != 0:
				t.Fatalf("port %d to %v: next hop %d of another table", o.Port(), dst, id)
			}
		}
	}
	if n := testing.AllocsPerRun(10, func() { w.Engine.Submit(w.Chunk) }); n != 0 {
		t.Errorf("Submit allocates %v times", n)
	}
}
