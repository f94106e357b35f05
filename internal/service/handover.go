package service

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/handover"
	"github.com/warproute/warproute/internal/tun"
	"github.com/warproute/warproute/ipsec"
)

// offer describes this router to the process that replaces it. The files are the queues of its TUN interfaces.
func (s *Service) offer(version string) (o *handover.Offer, files []int) {
	o = &handover.Offer{Protocol: handover.Protocol, Version: version, Gateway: s.gatewaySource(), StateDir: s.stateDir()}
	for _, p := range s.ports.all() {
		if p != nil {
			in := p.Inherited()
			o.Ports = append(o.Ports, handover.Port{Interface: p.Name, Mode: in.Mode.String(), Reason: in.ModeReason, Added: in.Added})
		}
	}
	for _, d := range []struct {
		device *tun.Device
		to     *handover.Interface
	}{{s.tun, &o.Tunnel}, {s.exit, &o.Exit}} {
		if d.device == nil {
			continue
		}
		*d.to = handover.Interface{Name: d.device.Name(), Queues: len(d.device.Queues())}
		for _, q := range d.device.Queues() {
			files = append(files, q.FD())
		}
	}
	return o, files
}

// suspendIPsec does what may wait for the disk or for Linux before the workers stop: it reserves sequence numbers and a
// nonce base for the next process, and ends the reports to Linux. resume undoes the rest.
func (s *Service) suspendIPsec() (base uint64, resume func(), err error) {
	resume = func() {}
	switch p := s.ipsec; {
	case p == nil:
	case s.xfrm != nil:
		s.xfrm.Suspend()
	default:
		p.stateMu.Lock() // no periodic work
		resume = p.stateMu.Unlock
		p.waitQuiescent()
		if err = errors.Join(p.store.Extend(), p.store.Note()); err == nil {
			base, err = p.store.ReserveNonceBase()
		}
		if err != nil {
			resume()
		}
	}
	return base, resume, err
}

// stopWorkers stops the workers, closes the sockets and returns the state. The XDP programs stay attached and
// drop transit frames.
func (s *Service) stopWorkers(base uint64) (*stopped, error) {
	last := &stopped{state: handover.State{NonceBase: base}}
	start := time.Now()
	err := s.ports.Withhold()
	s.router.Stop() // workers transmit what they have received
	drained := time.Now()
	err = errors.Join(err, s.ports.CloseSockets())
	s.log.Debug("workers stopped", "duration", drained.Sub(start))
	s.log.Debug("queues closed", "duration", time.Since(drained))
	err = errors.Join(err, s.saveSAs(&last.state))
	var linkErr error
	last.links, linkErr = s.ports.Handover()
	for _, l := range last.links {
		last.state.Links = append(last.state.Links, handover.Link{Interface: l.Interface, Index: l.Ifindex})
	}
	return last, errors.Join(err, linkErr)
}

// saveSAs saves the states of all SAs. No worker runs.
func (s *Service) saveSAs(to *handover.State) error {
	p := s.ipsec
	to.Exact = true
	switch {
	case p == nil:
	case s.xfrm != nil:
		to.SAs, to.NonceBases = s.xfrm.States(), []uint64{p.gateway.Nonces.Base()}
	default:
		to.SAs = map[string]ipsec.State{}
		for _, a := range p.sas {
			to.SAs[a.id] = a.State()
		}
		for len(p.deferred) > 0 {
			now := p.deferred
			p.deferred = nil
			for _, d := range now {
				d.run()
			}
		}
		store := p.store
		p.store = nil
		return store.HandOver()
	}
	return nil
}

// ownPredecessor returns the predecessor that this process is after the other one has failed. The other process may have
// used sequence numbers, so those that this one knows are not exact.
func (s *Service) ownPredecessor(version string, last *stopped) *Predecessor {
	o, files := s.offer(version)
	p := &Predecessor{offer: *o, stopped: last}
	last.state.Exact, last.state.SAs = false, nil
	for i, fd := range files {
		fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			s.log.Error("queue of a TUN interface not kept", "err", err)
			break
		}
		if i < o.Tunnel.Queues {
			p.tunnel = append(p.tunnel, fd)
		} else {
			p.exit = append(p.exit, fd)
		}
	}
	return p
}

func fdsOf(last *stopped) (fds []int) {
	for _, l := range last.links {
		fds = append(fds, l.Link)
	}
	return fds
}
