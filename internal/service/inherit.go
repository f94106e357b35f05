package service

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/metrics"
	"github.com/warproute/warproute/internal/handover"
)

// Predecessor is the router that hands its ports and SAs over to this one: another process, or this process
// after a process to which it handed them over has failed.
type Predecessor struct {
	offer        handover.Offer
	tunnel, exit []int          // queues of the TUN interfaces
	conn         *handover.Conn // nil: this process
	stopped      *stopped       // of this process
}

// stopped is the state of a router that has stopped its workers.
type stopped struct {
	state handover.State
	links []afxdp.Handover
}

// Connect returns the predecessor at a connection that it has passed as a file descriptor.
func Connect(fd int) (*Predecessor, error) {
	conn, err := handover.Inherit(fd)
	if err != nil {
		return nil, err
	}
	m, files, err := conn.Receive(handover.KindOffer)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	p := &Predecessor{offer: *m.Offer, conn: conn}
	if len(files) != p.offer.Tunnel.Queues+p.offer.Exit.Queues {
		handover.CloseAll(files)
		return nil, fmt.Errorf("the running router offers %d queues of interfaces, and sends %d", p.offer.Tunnel.Queues+p.offer.Exit.Queues, len(files))
	}
	p.tunnel, p.exit = files[:p.offer.Tunnel.Queues], files[p.offer.Tunnel.Queues:]
	if p.offer.Protocol != handover.Protocol {
		err := fmt.Errorf("the running router, version %s, hands over by protocol %d, and this binary knows %d: restart it instead", p.offer.Version, p.offer.Protocol, handover.Protocol)
		p.Fail(err)
		return nil, err
	}
	return p, nil
}

// Fail reports to the predecessor that this process cannot replace it.
func (p *Predecessor) Fail(err error) {
	if p == nil || p.conn == nil {
		return
	}
	_ = p.conn.Send(handover.Message{Kind: handover.KindFailed, Error: err.Error()}) // fails if the predecessor has ended
	_ = p.conn.Close()
}

// Inherit starts a router as Start does, which takes the ports and SAs of a predecessor over: it prepares while the
// predecessor forwards, and returns when the predecessor has ended. After an error, the predecessor has its ports.
func Inherit(cfg *config.Config, build metrics.Build, log *slog.Logger, level *slog.LevelVar, confine Confine, from *Predecessor) (*Service, error) {
	s, err := start(cfg, build, log, level, confine, from)
	if err != nil {
		from.Fail(err)
	}
	return s, err
}

// inherits reports whether a predecessor has the ports.
func (s *Service) inherits() bool { return s.from != nil && !s.owns.Load() }

// selectInherited limits the ports of the start to those of the predecessor. named is the number of the ports that the
// configuration names, which come first.
func (s *Service) selectInherited(initial *config.Config, named int) error {
	const hint = "run `warproute reload` first, or restart the router"
	offered := map[string]bool{}
	for _, p := range s.from.offer.Ports {
		offered[p.Interface] = true
	}
	for _, p := range initial.Ports[:named] {
		if !offered[p.Interface] {
			return fmt.Errorf("port %s of the configuration is not open in the running router: %s", p.Interface, hint)
		}
	}
	initial.Ports = slices.DeleteFunc(initial.Ports, func(p config.Port) bool { return !offered[p.Interface] })
	if len(initial.Ports) < len(offered) {
		return fmt.Errorf("the running router has %d ports, and the configuration selects %d of them: %s", len(offered), len(initial.Ports), hint)
	}
	return nil
}

// checkOffer returns an error if the configuration differs in what is handed over.
func (s *Service) checkOffer() error {
	o := &s.from.offer
	for _, x := range []struct{ key, is, was string }{
		{"ipsec.source", s.gatewaySource(), o.Gateway},
		{"ipsec.state", s.stateDir(), o.StateDir},
		{"ipsec.interface", s.tunnelInterface(), o.Tunnel.Name},
	} {
		if x.is != x.was {
			return fmt.Errorf("%s is %q, and %q in the running router: this takes a restart", x.key, x.is, x.was)
		}
	}
	return nil
}

// gatewaySource returns the source of SAs, "" without IPsec.
func (s *Service) gatewaySource() string {
	if !s.cfg.Protects() {
		return ""
	}
	return string(s.cfg.IPsec.Source)
}

// stateDir returns the directory of stored sequence numbers, "" for none.
func (s *Service) stateDir() string {
	if !s.cfg.Protects() || s.cfg.IPsec.Source == config.SourceXFRM {
		return ""
	}
	return s.cfg.IPsec.State
}

// tunnelInterface returns the name of the interface for tunnel traffic of the host, "" for none.
func (s *Service) tunnelInterface() string {
	if !s.cfg.Protects() {
		return ""
	}
	return s.cfg.IPsec.Interface
}

// inherited returns the predecessor's port on an interface, nil without a predecessor.
func (s *Service) inherited(name string) (*afxdp.Inherited, error) {
	if !s.inherits() {
		return nil, nil
	}
	i := slices.IndexFunc(s.from.offer.Ports, func(p handover.Port) bool { return p.Interface == name })
	p := s.from.offer.Ports[i] // selectInherited has checked it
	mode, err := afxdp.ParseMode(p.Mode)
	return &afxdp.Inherited{Mode: mode, ModeReason: p.Reason, Added: p.Added}, err
}

// replace replaces the predecessor: it waits until that has stopped its workers, continues its SAs, and starts the workers.
func (s *Service) replace(version string) error {
	if err := s.admit(); err != nil { // has no effect on packets before Attach
		return err
	}
	last, err := s.from.await(version)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := s.continueIPsec(&last.state); err != nil {
		return err
	}
	if err := s.ports.Bind(); err != nil {
		return err
	}
	bound := time.Now()
	if err := s.runWorkers(); err != nil {
		return err
	}
	if err := s.ports.Attach(last.links); err != nil {
		return err
	}
	s.log.Debug("queues bound", "duration", bound.Sub(start))
	s.log.Info("ports and SAs taken over", "from", s.from.offer.Version, "duration", time.Since(start))
	if err := s.from.release(); err != nil {
		return err
	}
	s.owns.Store(true)
	s.ports.Own()
	return nil
}

// await reports that this process is ready, and waits until the predecessor has stopped its workers.
func (p *Predecessor) await(version string) (*stopped, error) {
	if p.conn == nil {
		return p.stopped, nil
	}
	if err := p.conn.Send(handover.Message{Kind: handover.KindReady, Ready: &handover.Ready{Version: version}}); err != nil {
		return nil, err
	}
	m, files, err := p.conn.Receive(handover.KindState)
	if err != nil {
		return nil, err
	}
	if len(files) != len(m.State.Links) {
		handover.CloseAll(files)
		return nil, fmt.Errorf("the running router has %d links, and sends %d", len(m.State.Links), len(files))
	}
	last := &stopped{state: *m.State}
	for i, l := range m.State.Links {
		last.links = append(last.links, afxdp.Handover{Interface: l.Interface, Ifindex: l.Index, Link: files[i]})
	}
	return last, nil
}

// releaseTimeout limits the wait for the end of a predecessor that has handed over.
const releaseTimeout = 20 * time.Second

// release reports that packets are forwarded, and waits until the predecessor has closed everything else. One that has ended
// or hangs has nothing that is needed.
func (p *Predecessor) release() error {
	if p.conn == nil {
		return nil
	}
	if err := p.conn.Send(handover.Message{Kind: handover.KindForwarding}); err != nil {
		return err
	}
	p.conn.Deadline(time.Now().Add(releaseTimeout))
	_, _, _ = p.conn.Receive(handover.KindReleased)
	return p.conn.Close()
}
