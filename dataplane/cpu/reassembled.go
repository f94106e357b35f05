package cpu

import "github.com/warproute/warproute/batch"

// ProcessReassembled decides on a reassembled IP packet that no frame holds, as Submit does on packets in
// frames. origin is that of its last fragment.
//
// It returns the frame and the result that Submit would leave in a chunk, and the packet as it
// is now, valid until the next call. No port transmits it from there: a forward verdict means that the
// packet fits the MTU.
func (e *Engine) ProcessReassembled(p []byte, origin batch.Origin) (f batch.Frame, r batch.Result, now []byte) {
	if e.datagrams == nil {
		e.datagrams = e.esp.NewDatagrams()
		e.large = e.Over(e.datagrams.Mem())
	}
	f, r, now = e.datagrams.Apply(p, origin)
	if r.Verdict != 0 {
		return f, r, now
	}
	in, out := [1]batch.Frame{f}, [1]batch.Result{}
	e.large.Route(in[:], out[:])
	return in[0], out[0], now
}
