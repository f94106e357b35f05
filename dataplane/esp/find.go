package esp

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

// A device can find the SAs of received ESP, and the tunnels of packets to seal, by itself. The host posts frames
// without having read them. Then Rest makes jobs of the packets that the device has not opened or sealed, of which Classified takes the
// tunnels. Of opened packets that the device does not admit, MakeOpenJob makes the job as which Finish completes them.

// Finds reports whether a device may find SAs: not with reverse path filtering, for which the host looks at
// every source.
func (s *Stage) Finds() bool { return !s.fib.HasRPF() }

// BeginOpened begins a chunk whose frames were posted without jobs. Every packet is Plain until MakeOpenJob.
// Without jobs, no packet is for Rest. keys is the size of the device's key table. Packets of earlier chunks may be left to
// ConfirmOpened; it is called here if they are too many, or if the indexes of keys have changed, or the size of the table.
func (s *Stage) BeginOpened(in []batch.Frame, out []batch.Result, jobs []Job, keys uint32) {
	s.startCounts()
	stale := s.openers.stale(s.gateway, keys)
	if stale || len(s.opened.packets)+len(in) > openedMost {
		s.ConfirmOpened()
	}
	if stale {
		s.openers.reset(s.gateway, keys)
	}
	s.opened.begin(in, out)
	for i := range jobs {
		jobs[i].reset()
	}
}

// MakeOpenJob makes a job of a packet that a device has opened, by its report. ok is false if there is no such SA,
// or the packet cannot be its. The drop is that of an SA that is not usable any more.
func (s *Stage) MakeOpenJob(f batch.Frame, job *Job, report SAReport) (drop batch.Result, ok bool) {
	o := s.opener(report.KeyIndex())
	if o == nil {
		return batch.Result{}, false
	}
	sa := o.SA
	ip, esp, least := sa.InboundESP()
	at := packet.EthernetLen + esp
	if int(f.Len) < at+least {
		return batch.Result{}, false
	}
	job.ESP, job.Bytes, job.Header = uint16(at), f.Len-uint16(at), uint16(ip)
	job.Kind, job.Mode, job.Extended, job.Admitted, job.Reroute, job.SAByDevice, job.SA, job.Seq = Open, ipsec.Tunnel, false, false, false, true, sa, uint64(report.Seq())
	job.Classified, job.ReservedSA = false, nil
	s.countFirstSA(sa, 1)
	if s.received++; sa.Combined() {
		s.aead++
	} else {
		s.hmac++
	}
	return dropFor(sa.Usable(ipsec.In)), true
}

// Rest is Begin for the packets of a chunk that are still Plain and have no result: those that the device has left to the host.
func (s *Stage) Rest(in []batch.Frame, out []batch.Result, jobs []Job, keys uint32) {
	s.keys = keys
	s.apply(in, out, jobs[:len(in)], false)
}
