package cpu

import (
	"encoding/binary"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/prefetch"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

// Task is what a device is to do with a packet for an engine that has one, between Begin
// and Finish. All that must never go wrong, policies, sequence numbers and replays, is
// settled there, on the host, by the code of this engine.
//
// It has what the device needs of the association, which is read where the packet is: a chunk
// later it would have to be read again.
type Task struct {
	Kind     TaskKind
	Mode     esp.Mode
	TOS      byte   // open: of the header in front of ESP
	Extended bool   // sequence numbers have 64 bits
	SumsUDP  bool   // seal: see esp.SA
	KeyUsed  uint16 // bytes of the keys, from their beginning on, that the device needs
	Key      uint32 // where it has them: their esp.SA's Number
	SA       *esp.SA
	Seq      uint64 // whole sequence number
	// Lengths and places in bytes.
	ESP, Bytes uint16 // from the SPI, counted from the frame's first byte, to the end of the ICV
	Header     uint16 // open: of the IP headers in front of ESP
	NextAt     uint16 // open: where in these it is said what follows
}

// TaskKind says what there is to do before a packet is looked up.
type TaskKind uint8

const (
	Plain   TaskKind = iota // nothing
	Settled                 // it is not to be looked up: the result is there
	Seal                    // to encrypt: all but ciphertext, ICV and a UDP checksum is written, of CBC's IV the nonce
	Open                    // to decrypt, and go on with the packet inside
)

// Forged, as the length of a drop as xfrm_in_state_proto_error, tells Finish that the
// packet is not authentic. Other drops are of authentic ones.
const Forged = 1

// Secures tells whether the engine has a gateway.
func (e *Engine) Secures() bool { return e.ipsec != nil }

// Begin begins with a chunk as Submit does, and leaves to a device what is a task for
// one that has keys at the numbers below keys. What is none is done here. It returns how
// many packets are not just to be looked up.
func (e *Engine) Begin(in []batch.Frame, out []batch.Result, tasks []Task, keys uint32) (n int) {
	e.ipsec.keys, tasks = keys, tasks[:len(in)]
	for i := range tasks {
		tasks[i].Kind = Plain
	}
	e.secure(in, out, tasks)
	for i := range tasks {
		if tasks[i].Kind != Plain {
			n++
		}
	}
	return n
}

// fits tells whether a device can have a packet of an association as a task.
func (e *Engine) fits(t *Task, f *batch.Frame, s *esp.SA) bool {
	const aligned = 2 // IP headers and ESP are at multiples of 4 then
	return t != nil && f.Addr%4 == aligned && s.Number() < e.ipsec.keys && !e.isLarge(*f) && f.Port&batch.Merged == 0
}

// set fills in what is the association's, when Bytes is there.
func (t *Task) set(kind TaskKind, s *esp.SA, seq uint64) {
	t.Kind, t.Mode, t.Extended, t.SumsUDP, t.SA, t.Seq = kind, s.Mode(), s.Extended(), s.SumsUDP(), s, seq
	t.Key, t.KeyUsed = s.Number(), uint16(s.DeviceKeyUsed(int(t.Bytes)))
}

// prepare makes a packet of size bytes a task to seal.
func (e *Engine) prepare(f *batch.Frame, size int, s *esp.SA, t *Task) esp.Error {
	var o esp.Outgoing
	buf, at, _ := e.room(*f)
	if err := s.Prepare(e.ipsec.worker, buf, at, size, &o); err != esp.OK {
		return err
	}
	e.moved(f, o.At, o.Len)
	t.ESP, t.Bytes = uint16(o.ESP-o.At+packet.EthernetLen), uint16(o.At+o.Len-o.ESP)
	t.set(Seal, s, o.Seq)
	return esp.OK
}

// find makes a packet that arrived a task to open.
func (e *Engine) find(f *batch.Frame, s *esp.SA, t *Task) esp.Error {
	var in esp.Incoming
	buf, at, n := e.room(*f)
	if err := s.Find(e.ipsec.worker, buf, at, n, &in); err != esp.OK {
		return err
	}
	t.ESP, t.Bytes = uint16(in.ESP-at+packet.EthernetLen), uint16(in.End-in.ESP)
	t.set(Open, s, in.Seq)
	t.Header, t.NextAt, t.TOS = uint16(in.Header), uint16(in.NextAt), in.TOS
	return esp.OK
}

// Finish has the last word on packets that a device has opened and decided on: whether
// they are new, and whether they may have come and go that way. in still says where they
// were received. Other packets it leaves alone.
func (e *Engine) Finish(in []batch.Frame, out []batch.Result, tasks []Task) {
	if !anyOpen(tasks) {
		return
	}
	e.recall(out[:min(block, len(out))], tasks)
	for start := 0; start < len(in); start += block {
		end := min(start+block, len(in))
		sas, seqs := e.ipsec.opened(tasks[start:end])
		esp.RecallWindows(sas, seqs, e.ipsec.worker)
		e.recall(out[end:min(end+block, len(out))], tasks[end:])
		e.finishBlock(in[start:end], out[start:end], tasks[start:end])
	}
}

func anyOpen(tasks []Task) bool {
	for i := range tasks {
		if tasks[i].Kind == Open {
			return true
		}
	}
	return false
}

// recall asks for the headers of a block of packets that a device has opened, and for their
// associations: it wrote the headers to memory, from where they come while the block before is
// worked off.
func (e *Engine) recall(out []batch.Result, tasks []Task) {
	prefetch.ReadAt(e.mem[packet.EthernetLen:], out)
	prefetch.ReadAt(e.mem[packet.EthernetLen+packet.IPv4Len:], out) // their ports may be in the next line
	sas, _ := e.ipsec.opened(tasks[:len(out)])
	esp.Recall(sas)
}

// opened lists the associations and numbers of packets that a device has opened, until it is
// called again.
func (s *ipsec) opened(tasks []Task) (sas []*esp.SA, seqs []uint64) {
	n := 0
	for i := range tasks {
		if t := &tasks[i]; t.Kind == Open {
			s.several[n], s.seqs[n] = t.SA, t.Seq
			n++
		}
	}
	return s.several[:n], s.seqs[:n]
}

// finishBlock looks policies up as secureBlock does.
func (e *Engine) finishBlock(in []batch.Frame, out []batch.Result, tasks []Task) {
	s := e.ipsec
	s.n = 0
	var again [block]bool
	for i := range tasks {
		if t := &tasks[i]; t.Kind == Open {
			again[i] = e.finish(&in[i], &out[i], t, i)
		}
	}
	s.gateway.MayEnterAll(&s.lookups, s.enter[:], s.flows[:s.n], s.by[:])
	s.gateway.ProtectAll(&s.lookups, s.sas[:], s.leave[:], s.flows[:s.n])
	e.checkICMPErrorPolicy(in)
	for j := range s.n {
		i := int(s.at[j])
		switch {
		case s.enter[j] != esp.OK && in[i].Port&batch.Own == 0:
			out[i] = batch.Result{Verdict: batch.Drop(reasonOf(s.enter[j]))}
		case s.leave[j] != esp.OK:
			out[i] = batch.Result{Verdict: batch.Drop(reasonOf(s.leave[j]))}
		case s.sas[j] != nil:
			again[i] = true
		default:
			in[i].Port |= batch.Cleared
		}
	}
	for i := range tasks {
		if again[i] {
			e.redo(&in[i], &out[i], tasks[i].SA)
		}
	}
}

// finish confirms packet i of a block and lists it for the policies, unless it is dropped
// anyway. It tells whether what was inside was protected once more.
func (e *Engine) finish(f *batch.Frame, r *batch.Result, t *Task, i int) (again bool) {
	s := t.SA
	f.Port |= batch.Secured
	dropped := r.Verdict.Action() == batch.ActionDrop
	reason := r.Verdict.Reason()
	forged := dropped && reason == batch.XfrmInStateProtoError && r.Len == Forged
	if err := s.Confirm(e.ipsec.worker, t.Seq, !forged); err != esp.OK {
		*r = batch.Result{Verdict: batch.Drop(reasonOf(err))}
		return false
	}
	if dropped && reason >= batch.XfrmInHdrError {
		*r = batch.Result{Verdict: r.Verdict}
		return false
	}
	p := e.enter(f, t)
	switch {
	case p == nil:
		*r = batch.Result{Verdict: batch.Drop(batch.XfrmInStateProtoError)}
	case !s.Count(e.ipsec.worker, 1, uint64(len(p))):
		*r = batch.Result{Verdict: batch.Drop(batch.XfrmInStateExpired)}
	case dropped && reason < batch.NoRoute && reason != batch.TTLExpired: // not valid
	case e.nested(p):
		return true
	case reason == batch.TTLExpired:
	default:
		e.listOpened(p, i, s)
	}
	return false
}

// nested reports whether what was inside is protected, too.
func (e *Engine) nested(p []byte) bool {
	s, err := e.arrivedBy(p)
	return s != nil || err != esp.OK
}

// listOpened lists a packet that was valid to the device.
func (e *Engine) listOpened(p []byte, i int, by *esp.SA) {
	list := e.ipsec
	if p[0]>>4 == 6 {
		l4 := packet.L4{Proto: (*packet.IPv6)(p).NextHeader(), Offset: packet.IPv6Len}
		if l4.Proto.IsExtension() {
			l4, _ = packet.FindL4(p)
		}
		list.l4[list.n] = l4
	}
	list.list(p, i, by)
}

// enter has a frame be the packet that was in it, and returns the packet. It is there and whole
// unless the device erred.
func (e *Engine) enter(f *batch.Frame, t *Task) []byte {
	buf, at, _ := e.room(*f)
	body := int(t.ESP) - packet.EthernetLen + 8 + t.SA.IVLen() // from the received packet's beginning
	end := at + int(t.ESP) - packet.EthernetLen + int(t.Bytes)
	if t.Mode == esp.Transport {
		body -= int(t.Header)
	}
	at += body
	p := buf[at:end]
	if len(p) < packet.IPv4Len {
		return nil
	}
	var size, least int
	switch p[0] >> 4 {
	case 4:
		size, least = int(binary.BigEndian.Uint16(p[2:])), packet.IPv4Len
	case 6:
		size, least = packet.IPv6Len+int(binary.BigEndian.Uint16(p[4:])), packet.IPv6Len
	default:
		return nil
	}
	if size < least || size > len(p) {
		return nil
	}
	e.moved(f, at, size)
	return p[:size]
}

// redo has this engine go on with a packet that is to be opened or sealed once more,
// from before it was routed.
func (e *Engine) redo(f *batch.Frame, r *batch.Result, by *esp.SA) {
	if r.Verdict.Action() == batch.ActionForward {
		p := e.frame(*f)[packet.EthernetLen:]
		if p[0]>>4 == 4 {
			p[8]++
			p[10], p[11] = 0, 0
			binary.BigEndian.PutUint16(p[10:], packet.Checksum(p[:packet.IPv4Len]))
		} else {
			p[7]++
		}
	}
	f.Port &^= batch.Secured
	in, out := [1]batch.Frame{*f}, [1]batch.Result{}
	e.secureBlock(in[:], out[:], nil, by)
	e.route(in[:], out[:], false)
	*f, *r = in[0], out[0]
}
