package esp

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/inspect"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

// Repeat does the jobs of a chunk as the device does, on copies of its frames in mem: for
// comparison with the device's results. Frames are as Begin left them. Afterwards in has the frames
// to look up; out has the drops. Sequence numbers, replay windows and counters do not change.
func (s *Stage) Repeat(mem []byte, in []batch.Frame, out []batch.Result, jobs []Job) {
	frames := inspect.Frames{Mem: mem}
	for i := range jobs {
		switch job := &jobs[i]; job.Kind {
		case Seal:
			at := int(in[i].Addr) + packet.EthernetLen
			from := int(in[i].Addr) + int(job.ESP)
			job.SA.Seal(s.worker, mem, &ipsec.Outgoing{At: at, Len: from + int(job.Bytes) - at, ESP: from, Seq: job.Seq})
		case Open:
			out[i] = s.reopen(&frames, &in[i], job)
		}
	}
}

// reopen decrypts a packet. It returns its drop, the zero result if the inner packet is to be looked up.
func (s *Stage) reopen(frames *inspect.Frames, f *batch.Frame, job *Job) batch.Result {
	at, from := int(f.Addr)+packet.EthernetLen, int(f.Addr)+int(job.ESP)
	in := ipsec.Incoming{ESP: from, End: from + int(job.Bytes), Seq: job.Seq, Header: int(job.Header), NextAt: int(job.NextAt), TOS: job.TOS}
	if !job.SA.Open(s.worker, frames.Mem, &in) {
		return batch.DropICVFailure()
	}
	at, n, err := job.SA.Unwrap(frames.Mem, at, &in)
	if err != ipsec.OK {
		return dropFor(err)
	}
	f.Addr, f.Len = uint32(at-packet.EthernetLen), uint16(packet.EthernetLen+n)
	frames.SetEtherType(*f)
	return batch.Result{}
}
