package service

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/netdev"
)

// Interfaces become ports, and end to be ports, while the router runs: those that match a pattern of the
// configuration, those that a reload names, and those that join a bond.
//
//	mirror: a link changed ─► wake ─► reconcile: interfaces ─► config.Select ─► open and close ports
//	reload: other names or patterns ─┘
//
// One goroutine at a time changes ports: it holds hotplug.mu. Other ports are not touched.

// hotplug is the state of the changes of ports.
type hotplug struct {
	wake chan struct{}

	mu       sync.Mutex // held while ports change
	failures map[int]*failure
	logged   time.Time          // begin of the interval of logFailure
	logs     int                // in it
	decided  []status.Interface // by the last reconciliation; the slice is replaced
	view     sync.Mutex         // guards decided
}

// failure is an interface that matches and could not be opened.
type failure struct {
	name  string
	hint  string
	err   error
	tries int
	next  time.Time // of the next try
}

const (
	// settle collects the events of an interface that is created, renamed and set up into one reconciliation, and
	// limits those of a flood.
	settle = 20 * time.Millisecond
	// retryPorts and retryPortsMost are the delays after the first and after many failures to open an interface.
	retryPorts     = 200 * time.Millisecond
	retryPortsMost = 30 * time.Second
)

func newHotplug() hotplug {
	return hotplug{wake: make(chan struct{}, 1), failures: map[int]*failure{}}
}

// selectPorts finds the ports of the start.
func (s *Service) selectPorts() error {
	initial := *s.cfg
	initial.Ports = s.cfg.AtStart(nil)
	named := len(initial.Ports)
	devices, err := netdev.Devices()
	if err != nil {
		return err
	}
	if s.cfg.Patterns() {
		initial.Ports = s.cfg.AtStart(devices)
		if len(initial.Ports) == 0 {
			s.log.Warn("no port yet: no interface matches the patterns of ports", "hint", "see `warproute show interfaces`; without a port, the number of workers is one: set workers")
		}
	}
	if s.inherits() {
		if err := errors.Join(s.checkOffer(), s.selectInherited(&initial, named)); err != nil {
			return err
		}
	}
	if n := len(initial.Ports); n > config.MaxPorts { // with the members of bonds
		return fmt.Errorf("%d ports, with the members of bonds: at most %d are possible", n, config.MaxPorts)
	}
	s.initial = &initial
	s.setRoom(len(initial.Ports), countLogical(initial.Ports, devices))
	for i, p := range initial.Ports {
		s.ports.configured[i] = portConfig{p, i >= named}
	}
	s.partialChecksums = partialChecksumPorts(&initial, len(s.ports.configured))
	return nil
}

// setRoom sizes what has a place for each port number, with numbers of ports and logical ports at the start.
func (s *Service) setRoom(start, logical int) {
	p := &s.ports
	p.start, p.most = start, s.cfg.Room(start)
	p.manyAtStart.Store(logical > loggedAtStart)
	numbers := physicalNumbers(s.cfg, start, logical)
	p.configured, p.links = make([]portConfig, numbers), make([]link, numbers)
	p.numbers = s.fib.NewPortNumbers(start, numbers)
}

// wakePorts requests a reconciliation. The mirror calls it.
func (s *Service) wakePorts() {
	select {
	case s.hotplug.wake <- struct{}{}:
	default:
	}
}

// watchPorts reconciles the ports with the interfaces until the router stops.
func (s *Service) watchPorts() {
	stop, ended := make(chan struct{}), make(chan struct{})
	s.closers.push("stop following interfaces", func() error { close(stop); <-ended; return nil })
	s.wakePorts()
	go func() {
		defer close(ended)
		retry := time.NewTimer(time.Hour)
		defer retry.Stop()
		for {
			select {
			case <-stop:
				return
			case <-s.hotplug.wake:
			case <-retry.C:
			}
			select {
			case <-stop:
				return
			case <-time.After(settle):
			}
			s.hotplug.mu.Lock()
			next := s.reconcilePorts()
			s.hotplug.mu.Unlock()
			retry.Reset(next)
		}
	}()
}

// reconcilePorts opens interfaces that are to be ports, and closes ports that are not any longer. It returns the time until
// it is to be called again without an event. The caller holds hotplug.mu.
func (s *Service) reconcilePorts() (next time.Duration) {
	next = time.Hour
	if s.handing.Load() {
		return next
	}
	matching := s.cfg.Patterns() || s.hasMatched()
	if !matching {
		s.decide(nil)
		if !s.hasBonds() {
			return next
		}
	}
	devices, err := netdev.Devices()
	if err != nil {
		s.log.Error("interfaces not read, ports stay as they are", "err", err)
		return retryPorts
	}
	selected := s.cfg.Select(devices)
	present := map[int]*config.Selection{}
	for i, d := range devices { // in the order of selected
		if p, ok := s.joined(d.Name, d.Master); ok {
			selected[i].Port, selected[i].Taken, selected[i].Down = p, d.Up, !d.Up
			selected[i].Reason = "member of bond " + p.Bond
		}
		present[d.Index] = &selected[i]
	}
	s.closeUnselected(present)
	now := time.Now()
	for index, f := range s.hotplug.failures {
		if d := present[index]; d == nil || d.Interface != f.name || !d.Taken {
			delete(s.hotplug.failures, index)
		}
	}
	decided, open := make([]status.Interface, 0, len(selected)), s.ports.byIndex()
	for i := range selected {
		d := &selected[i]
		decided = append(decided, status.Interface{Name: d.Interface, Index: d.Index, Matched: d.Matched})
		view := &decided[len(decided)-1]
		view.Port, view.Reason = s.openSelected(d, open, now)
		if f := s.hotplug.failures[d.Index]; f != nil {
			next = min(next, max(f.next.Sub(now), settle))
		}
	}
	if matching {
		s.decide(decided)
	}
	return next
}

// openSelected opens an interface that is to be a port, unless it is one. It returns whether it is one, and why.
func (s *Service) openSelected(d *config.Selection, open map[int]int, now time.Time) (port bool, reason string) {
	number, isOpen := open[d.Index]
	switch {
	case isOpen:
		if name := s.ports.port(number).Name; name != d.Interface {
			return true, "port " + name + ", renamed"
		}
		if !d.Taken { // it was set down
			return true, "port, " + d.Reason
		}
		return true, d.Reason
	case !d.Taken:
		return false, d.Reason
	case d.Port.Bond == d.Interface: // its members are open
		return true, d.Reason
	case s.cfg.Names(d.Interface):
		return false, "named, and not open: see the log"
	}
	f := s.hotplug.failures[d.Index]
	if f == nil {
		f = &failure{name: d.Interface, hint: "fix the cause, or exclude it: add \"!" + d.Interface + "\" to ports"}
		if d.Port.Bond != "" {
			f.hint = "fix the cause; until then, Linux gets the frames of this member of bond " + d.Port.Bond
		}
	}
	if now.Before(f.next) {
		return false, f.reason()
	}
	if _, f.err = s.openPort(d.Port, true); f.err == nil {
		delete(s.hotplug.failures, d.Index)
		return true, d.Reason
	}
	if _, gone := net.InterfaceByIndex(d.Index); gone != nil {
		return false, "deleted while it was opened"
	}
	if s.hotplug.failures[d.Index] == nil {
		s.logFailure(f, now)
	}
	f.next = now.Add(min(retryPorts<<min(f.tries, 16), retryPortsMost))
	f.tries++
	s.hotplug.failures[d.Index] = f
	return false, f.reason()
}

// logFailure logs an interface that could not be opened, up to failureLogs in failureLogTime.
func (s *Service) logFailure(f *failure, now time.Time) {
	const failureLogs, failureLogTime = 5, 10 * time.Second
	h := &s.hotplug
	if now.Sub(h.logged) > failureLogTime {
		h.logged, h.logs = now, 0
	}
	h.logs++
	switch {
	case h.logs <= failureLogs:
		s.log.Error("interface matches and is no port", "port", f.name, "err", f.err, "hint", f.hint)
	case h.logs == failureLogs+1:
		s.log.Error("further interfaces match and are no ports", "hint", "see `warproute show interfaces`")
	}
}

func (f *failure) reason() string { return fmt.Sprintf("cannot be opened: %v", f.err) }

// closeUnselected closes the ports of patterns, and members that joined a bond, whose interface is gone, renamed, or
// selected no longer. One that was set down stays.
func (s *Service) closeUnselected(present map[int]*config.Selection) {
	for index, number := range s.ports.byIndex() {
		p := s.ports.port(number)
		if !s.ports.configured[number].matched {
			continue
		}
		switch d := present[index]; {
		case d == nil:
			s.closePort(number, "interface deleted, or moved to another namespace", true)
		case d.Interface != p.Name:
			s.closePort(number, "interface renamed to "+d.Interface, false)
		case d.Taken && d.Port.Bond != s.ports.configured[number].Bond:
			s.closePort(number, "interface joined or left a bond", false)
		case !d.Taken && !d.Down:
			s.closePort(number, d.Reason, false)
		}
	}
}

// hasMatched reports whether a port is open that a pattern has taken.
func (s *Service) hasMatched() bool {
	return slices.ContainsFunc(s.ports.configured, func(p portConfig) bool { return p.matched })
}

func (s *Service) decide(all []status.Interface) {
	s.hotplug.view.Lock()
	s.hotplug.decided = all
	s.hotplug.view.Unlock()
}

// interfaces returns the interfaces of this host, and whether and why each is a port.
func (s *Service) interfaces() ([]status.Interface, error) {
	s.hotplug.view.Lock()
	all := s.hotplug.decided
	s.hotplug.view.Unlock()
	if all != nil {
		return all, nil
	}
	all = []status.Interface{}
	for _, p := range s.ports.all() {
		if p != nil {
			all = append(all, status.Interface{Name: p.Name, Index: p.Ifindex, Port: true, Matched: true, Reason: "named"})
		}
	}
	return all, nil
}
