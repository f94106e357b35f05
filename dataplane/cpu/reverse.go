package cpu

import (
	"encoding/binary"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/packet"
)

// verify drops those packets of a block that come from where their ports do not take them
// from, whatever else is wrong with them: their sources are told of nothing. The others have
// no verdict yet. What bears a mark was received earlier or not at all, and is not asked:
// packets of the router's own, and those out of tunnels. What is no whole IP header is left
// to be refused as that.
func (e *Engine) verify(in []batch.Frame, out []batch.Result) {
	e.listSources(in)
	e.fib.IPv4.LookupBatch(e.v4.hops[:], e.v4.addr[:e.v4.n])
	e.fib.IPv6.LookupBatch(e.v6.hops[:], e.v6.addr[:e.v6.n])
	for j := range e.v4.n {
		if i := e.v4.at[j]; !e.fib.Takes(e.fib.Sources(in[i].Port).IPv4, in[i].Port, e.v4.hops[j]) {
			out[i] = batch.Result{Verdict: batch.Drop(batch.ReversePath)}
		}
	}
	for j := range e.v6.n {
		if i := e.v6.at[j]; !e.fib.Takes(e.fib.Sources(in[i].Port).IPv6, in[i].Port, e.v6.hops[j]) {
			out[i] = batch.Result{Verdict: batch.Drop(batch.ReversePath)}
		}
	}
}

// listSources lists for lookup the sources of a block that their ports ask for.
func (e *Engine) listSources(in []batch.Frame) {
	const src4, src6 = packet.EthernetLen + 12, packet.EthernetLen + 8
	e.v4.n, e.v6.n = 0, 0
	for i, f := range in {
		if f.Port >= batch.MaxPorts { // it bears a mark
			continue
		}
		asked, b := e.fib.Sources(f.Port), e.frame(f)
		if asked == (fib.Sources{}) || len(b) < packet.EthernetLen+packet.IPv4Len {
			continue
		}
		switch (*packet.Ethernet)(b).Type() {
		case packet.EtherTypeIPv4:
			if n := e.v4.n; asked.IPv4 != fib.AnySource {
				e.v4.at[n], e.v4.addr[n] = int32(i), binary.BigEndian.Uint32(b[src4:])
				e.v4.n = n + 1
			}
		case packet.EtherTypeIPv6:
			if n := e.v6.n; asked.IPv6 != fib.AnySource && len(b) >= packet.EthernetLen+packet.IPv6Len {
				e.v6.at[n], e.v6.addr[n] = int32(i), [16]byte(b[src6:])
				e.v6.n = n + 1
			}
		}
	}
}
