package xfrm

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/warproute/warproute/ipsec"
)

// Rekeying, and deleting and creating tunnels with other names, does not grow memory.
func TestRekeysDoNotGrowMemory(t *testing.T) {
	f := newFake(t)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var before uint64
	for i := range rekeys {
		if i == rekeys/5 {
			before = heap()
		}
		reqid := uint32(1 + i/2) // each tunnel is rekeyed once
		named := func(info []byte) { host.PutUint32(info[208:], reqid) }
		out, in := outState(uint32(0x1000+2*i)), inState(uint32(0x1001+2*i))
		out.key, in.key = byte(2*i), byte(2*i+1)
		out.change, in.change = named, named
		f.apply(out.message(msgNewSA), in.message(msgNewSA))
		if i%2 == 0 {
			leave, enter := outPolicy(1), inPolicy(2)
			of := func(_, tmpl []byte) { host.PutUint32(tmpl[44:], reqid) }
			leave.change, enter.change = of, of
			f.apply(leave.message(msgNewPolicy), enter.message(msgNewPolicy))
		}
		if got, want := f.outboundSPI(), binary.BigEndian.Uint32(out.info()[72:]); got != want {
			t.Fatalf("rekey %d: packets use %#x, want %#x", i, got, want)
		}
		if e := f.received(f.gateway.Inbound(in.spi, here)); e != ipsec.OK {
			t.Fatalf("rekey %d: packets are refused: %v", i, e)
		}
		f.apply(out.message(msgDelSA), in.message(msgDelSA))
		f.quiesce()
	}
	const most = 4 << 20 // the memory of deleted keys is bounded, but fills later
	if after := heap(); after > before+most {
		t.Errorf("%d bytes more than after the first fifth", after-before)
	}
	if n := f.gateway.Tunnel("another"); n > 10 {
		t.Errorf("the next tunnel has number %d", n)
	}
}
