package service

import (
	"maps"
	"slices"
	"time"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/internal/drivers"
	"github.com/warproute/warproute/internal/netdev"
)

// Seconds in a row in which a driver receives frames and runs no program, before the program is attached again: at first, and at
// most, if that does not help.
const (
	forgottenAfter = 2
	forgottenMost  = 256
)

// driverInterval is the time after which the driver of a port is asked for again: another device can have its name.
const driverInterval = time.Minute

// programs finds drivers that no longer run their XDP program, though Linux shows it (drivers.Driver.ForgetsProgram).
type programs map[*afxdp.Port]*programState

// programState is the last state of a port, in frames.
type programState struct {
	forgets  bool      // the driver can forget it
	asked    time.Time // when the driver was asked for, which waits for the kernel's lock of all interfaces
	known    bool      // the next two are
	received uint64    // by the interface
	seen     uint64    // by the program
	since    uint64    // received by the interface and not seen, in the last seconds
	seconds  int
	wait     int // seconds before the next attempt, doubled by each one that did not help
}

// forgotten returns the frames that the driver received without running the program, once it has done so for some seconds, else 0.
func (s *programState) forgotten(received, seen uint64) (frames uint64) {
	before := *s
	s.known, s.received, s.seen = true, received, seen
	if !before.known || seen != before.seen {
		s.wait = forgottenAfter
	}
	if !before.known || seen != before.seen || received <= before.received {
		s.since, s.seconds = 0, 0
		return 0
	}
	s.since += received - before.received
	if s.seconds++; s.seconds < s.wait {
		return 0
	}
	frames, s.since, s.seconds, s.wait = s.since, 0, 0, min(2*s.wait, forgottenMost)
	return frames
}

// checkPrograms attaches the XDP program again to ports whose driver has forgotten it.
func (s *Service) checkPrograms() func(time.Time) {
	states := programs{}
	return func(now time.Time) {
		if s.handing.Load() {
			return
		}
		var received map[string]netdev.Counters
		all := s.ports.all()
		maps.DeleteFunc(states, func(p *afxdp.Port, _ *programState) bool { return !slices.Contains(all, p) })
		for i, p := range all {
			if p == nil || p.Mode == afxdp.Generic || p.Paused() {
				continue
			}
			state := states[p]
			if state == nil {
				state = new(programState)
				states[p] = state
			}
			ask := now.Sub(state.asked) >= driverInterval
			if !ask && !state.forgets {
				continue
			}
			name := s.mirror.PortName(i)
			if ask {
				driver := netdev.DriverOf(name).Name
				if driver == "" {
					continue // not known yet
				}
				d, _ := drivers.Find(driver)
				state.forgets, state.asked = d.ForgetsProgram, now
			}
			if !state.forgets {
				continue
			}
			if received == nil {
				received = s.links.read(s.log)
			}
			c, err := p.Stats()
			if err != nil {
				continue // Snapshot logs it
			}
			seen := uint64(0)
			for _, n := range c.Frames {
				seen += n
			}
			frames := state.forgotten(received[name].RxPackets, seen)
			if frames == 0 {
				continue
			}
			if err := p.Reattach(); err != nil {
				s.log.Error("driver does not run the XDP program, and it could not be attached again: frames go to Linux uncounted", "port", p.Name, "err", err, "hint", "restart the router")
				continue
			}
			s.log.Warn("driver did not run the XDP program any longer, attached again", "port", p.Name, "frames", frames, "reason", "frames that went to Linux uncounted")
		}
	}
}
