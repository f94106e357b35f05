package service

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/netdev"
)

// The steps to open a port while the router runs, in this order, and to close it, in the opposite one:
//
//	number    fib.PortNumbers
//	guard     Linux forwards no packet of the port past a gateway's policies
//	sockets   afxdp: the XDP program passes all frames to Linux
//	workers   dataplane: they poll the queues, and transmit to the port
//	routes    mirror: routes over the interface lead to the port
//	admit     afxdp: the XDP program redirects frames

// openPort opens an interface as a port and returns its number. matched says that a pattern takes it, or that it has joined
// a bond. After an error nothing of it is open. The caller holds hotplug.mu.
func (s *Service) openPort(cfg config.Port, matched bool) (_ int, err error) {
	if open := s.ports.count(); open >= s.ports.most {
		return 0, fmt.Errorf("open port %s: the router has %d ports, and memory for %d: raise max_ports and restart it, or remove another port", cfg.Interface, open, s.ports.most)
	}
	mode, err := afxdp.ParseMode(string(cfg.Mode))
	if err != nil {
		return 0, err
	}
	check, err := rpfOf(cfg)
	if err != nil {
		return 0, err
	}
	number, err := s.ports.numbers.Take()
	if err != nil {
		return 0, fmt.Errorf("open port %s: %w: try again, or set max_ports to keep numbers for further ports, and restart the router", cfg.Interface, err)
	}
	undo := closers{}
	defer func() {
		if err != nil {
			err = errors.Join(err, undo.unwind())
		}
	}()
	free := s.ports.numbers.Untake
	undo.push("free the number", infallible(func() { free(number) }))
	if s.guard != nil {
		if err := s.guard.Add(cfg.Interface); err != nil {
			return 0, fmt.Errorf("open port %s: block Linux's forwarding past the IPsec policies: %w", cfg.Interface, err)
		}
	}
	before, _ := netdev.CarrierOf(cfg.Interface)
	p, err := s.ports.Add(number, afxdp.PortConfig{Interface: cfg.Interface, Mode: mode, Member: cfg.Bond != ""})
	if err != nil {
		return 0, err
	}
	undo.push("close the sockets", func() error { _, err := s.ports.forget(number); return err })
	queues := s.ports.enlist(number, p, portConfig{cfg, matched}, len(s.memory.workers))
	if err := s.router.OpenPort(number, queues); err != nil {
		return 0, err
	}
	free = s.ports.numbers.Free
	undo.push("remove the port from the workers", func() error { return s.router.ClosePort(number, drainGone) })
	if err := s.threadAdded(number, p); err != nil {
		return 0, err
	}
	s.ports.addresses.Replace(number, p.Ifindex)
	undo.push("forget addresses", infallible(func() { s.forgetAddresses(number) }))
	if err := s.addRoutes(number, p, cfg.Bond); err != nil {
		return 0, err
	}
	undo.push("remove routes", infallible(func() { s.mirror.RemovePort(number) }))
	s.rpf.open(s.log, number, cfg, check)
	undo.push("forget the reverse path check", infallible(func() { s.rpf.close(number) }))
	if err := p.Admit(); err != nil {
		return 0, err
	}
	s.logOpen(p, before)
	return number, nil
}

// addRoutes has the mirror add a port, as soon as it knows the link.
func (s *Service) addRoutes(number int, p *afxdp.Port, bond string) (err error) {
	const wait, tries = 10 * time.Millisecond, 50
	for range tries {
		if err = s.mirror.AddPort(number, mirror.Port{Name: p.Name, Ifindex: p.Ifindex, Bond: bond}); !errors.Is(err, mirror.ErrNoLink) {
			return err
		}
		time.Sleep(wait)
	}
	return err
}

// Times to wait for packets in flight of a port that is closed: one with an interface transmits them, others cannot.
const (
	drainOpen = time.Second
	drainGone = 20 * time.Millisecond
)

// closePort closes a port. Its packets in flight are transmitted, as far as its interface exists. The caller holds hotplug.mu.
func (s *Service) closePort(number int, reason string, gone bool) {
	p := s.ports.port(number)
	var errs []error
	errs = append(errs, p.Detach())
	s.rpf.close(number)
	s.mirror.RemovePort(number)
	s.forgetAddresses(number)
	errs = append(errs, s.unthreadRemoved(number, gone))
	drain := drainOpen
	if gone {
		drain = drainGone
	}
	errs = append(errs, s.router.ClosePort(number, drain))
	lost, err := s.ports.forget(number)
	if errs = append(errs, err); lost > 0 {
		s.log.Warn("frames stay with the kernel until the router restarts", "port", p.Name, "frames", lost)
	}
	if s.cfg.Checksum != config.ChecksumAuto || s.partialChecksums[number] { // else only for a port like it
		s.ports.numbers.Free(number)
	}
	if err := errors.Join(errs...); err != nil {
		s.log.Error("port not closed cleanly", "port", p.Name, "err", err)
	}
	for _, f := range s.hotplug.failures { // for which there may be room now
		f.next = time.Time{}
	}
	s.log.Info("port removed", "port", p.Name, "reason", reason)
}

func (s *Service) forgetAddresses(number int) {
	s.ports.addresses.Remove(number)
	s.router.SetAddresses(number, dataplane.Addresses{})
}

// threadAdded moves the receive work of an added port to the workers' cores, if configured.
func (s *Service) threadAdded(number int, p *afxdp.Port) error {
	s.ports.mu.Lock()
	defer s.ports.mu.Unlock()
	if s.ports.restoreNAPI == nil {
		return nil
	}
	restore, err := s.threadPort(p)
	if err == nil {
		s.ports.restoreNAPI[number] = restore
	}
	return err
}

// unthreadRemoved undoes threadAdded, unless the interface is gone.
func (s *Service) unthreadRemoved(number int, gone bool) error {
	s.ports.mu.Lock()
	restore := s.ports.restoreNAPI[number]
	delete(s.ports.restoreNAPI, number)
	s.ports.mu.Unlock()
	if restore == nil || gone {
		return nil
	}
	return restore()
}

// enlist lists an opened port, and returns its queues by worker.
func (p *ports) enlist(number int, port *afxdp.Port, cfg portConfig, workers int) [][]dataplane.Queue {
	queues := make([][]dataplane.Queue, workers)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.configured[number], p.links[number] = cfg, link{}
	p.sockets[port.Name] = 0
	for w := range queues {
		queues[w] = queuesOf(port, w)
		p.sockets[port.Name] += len(queues[w])
	}
	p.publish()
	return queues
}

// forget closes the sockets of a port, which no worker uses, and keeps its counters. It returns the number of frames that
// are lost.
func (p *ports) forget(number int) (lost int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sockets, p.configured[number].Interface)
	p.configured[number], p.links[number] = portConfig{}, link{}
	last, lost, err := p.Set.Remove(number)
	p.publish()
	p.removed.add(xdpStatus(last), ringStatus(last))
	return lost, err
}

// byIndex returns the numbers of the open ports by interface index.
func (p *ports) byIndex() map[int]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	numbers := map[int]int{}
	for number, on := range p.all() {
		if on != nil {
			numbers[on.Ifindex] = number
		}
	}
	return numbers
}

// count returns the number of open ports.
func (p *ports) count() (n int) {
	for _, on := range p.all() {
		if on != nil {
			n++
		}
	}
	return n
}

// numSockets returns the number of sockets of a port.
func (p *ports) numSockets(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sockets[name]
}

// first returns the names of the physical ports up to the first number without one, at least one.
func (p *ports) first() []string {
	names := p.names()
	if end := slices.Index(names, ""); end >= 0 {
		names = names[:end]
	}
	if len(names) == 0 {
		return []string{"-"}
	}
	return names
}

// reconfigured returns the settings of the open ports in a configuration, by number. A port that it lacks has none.
func (p *ports) reconfigured(cfg *config.Config) []config.Port {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]config.Port, len(p.configured))
	for number, c := range p.configured {
		if c.Interface != "" {
			all[number], _ = cfg.PortOf(c.Interface)
		}
	}
	return all
}

// removedPorts are the counters of the kernel for removed ports.
type removedPorts struct {
	ports int
	xdp   status.XDP
	rings status.Rings
}

// removedName is the name under which the counters of removed ports are shown.
const removedName = "(removed)"

func (r *removedPorts) add(x status.XDP, g status.Rings) {
	r.ports++
	r.xdp.Add(&x)
	r.rings.Add(&g)
}

// addTo adds the removed ports to a snapshot, as one.
func (r *removedPorts) addTo(snap *status.Snapshot) {
	if r.ports == 0 {
		return
	}
	state := status.PortState{Name: removedName, Removed: r.ports, XDP: r.xdp.Clone(), Rings: r.rings}
	snap.Ports = append(snap.Ports, state)
	snap.Stats.Ports = append(snap.Stats.Ports, snap.Stats.Removed)
}
