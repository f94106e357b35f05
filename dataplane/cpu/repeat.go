package cpu

import (
	"github.com/warproute/warproute/batch"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

// Repeater returns an engine that repeats the work of this engine's device on copies of
// frames, in mem. Only the goroutine that uses this engine may use it.
func (e *Engine) Repeater(mem []byte) *Engine {
	return &Engine{fib: e.fib, words: e.words, mem: mem, large: len(mem), repair: e.repair, ipsec: e.ipsec}
}

// Repeat does a device's part of a chunk: what it does between Begin and Finish, or for the
// whole chunk where tasks is nil. Frames are as Begin left them. Afterwards in says where the
// packets are, and out is as the device has to have it. No state changes: sequence numbers,
// replay windows and counters stay as they are.
func (e *Engine) Repeat(in []batch.Frame, out []batch.Result, tasks []Task) {
	clear(out)
	for i := range tasks {
		switch t := &tasks[i]; t.Kind {
		case Seal:
			at := int(in[i].Addr) + packet.EthernetLen
			from := int(in[i].Addr) + int(t.ESP)
			t.SA.Seal(e.ipsec.worker, e.mem, &esp.Outgoing{At: at, Len: from + int(t.Bytes) - at, ESP: from, Seq: t.Seq})
		case Open:
			out[i] = e.reopen(&in[i], t)
		}
	}
	e.route(in, out, e.ipsec == nil && e.fib.Verifies())
}

// reopen decrypts a packet. The result has no verdict if the packet inside is to be routed.
func (e *Engine) reopen(f *batch.Frame, t *Task) batch.Result {
	at, from := int(f.Addr)+packet.EthernetLen, int(f.Addr)+int(t.ESP)
	in := esp.Incoming{ESP: from, End: from + int(t.Bytes), Seq: t.Seq, Header: int(t.Header), NextAt: int(t.NextAt), TOS: t.TOS}
	if !t.SA.Authentic(e.ipsec.worker, e.mem, &in) {
		return batch.Result{Len: Forged, Verdict: batch.Drop(batch.XfrmInStateProtoError)}
	}
	at, n, err := t.SA.Unwrap(e.mem, at, &in)
	if err != esp.OK {
		return batch.Result{Verdict: batch.Drop(reasonOf(err))}
	}
	f.Addr, f.Len = uint32(at-packet.EthernetLen), uint16(packet.EthernetLen+n)
	b := e.frame(*f)
	(*packet.Ethernet)(b).SetType(etherType(b[packet.EthernetLen:]))
	return batch.Result{}
}
