package sequences

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/warproute/warproute/ipsec"
)

// What has been received is noted, too, so that nobody can play it again to a router that
// has started again: an inbound association begins with everything up to the highest
// number noted as received.
//
// The number is noted after the packet has passed, by Note, and not ahead: a peer whose
// connections stand still while its router is away sends few packets then, and would be
// refused for long by a router that leaves out numbers. So a stop, a reload and a start
// are exact, after a crash of the router the packets of the last NoteEvery can be played
// again, once each, and after one of the host those of the last syncEvery.
//
// Numbers go by key and SPI. A peer that begins anew with both, as one does that is set up
// by hand and forgets its numbers, is refused until it is past them, also by a router
// that started again; RFC 4303 forbids it (section 3.3.3), and with most suites it gives
// the keys away.

// NoteEvery is how often Note is to be called.
const NoteEvery = 250 * time.Millisecond

// Receive has inbound associations refuse what has been received by their keys and SPIs,
// and notes what they receive from now on. Those without a replay window accept all.
func (s *Store) Receive(list ...Association) {
	for _, a := range list {
		c := a.SA.Config()
		if c.ReplayWindow == 0 {
			continue
		}
		name := idOf("received numbers", binary.BigEndian.AppendUint32(nil, c.SPI), a.Key)
		if n, is := s.received.number(name); is {
			a.SA.Skip(n)
		}
		s.receiving[a.SA] = name
	}
}

// Note notes what was received, and what of lifetimes is used. Each is noted also where the
// other cannot be.
func (s *Store) Note() error {
	highest := map[id]uint64{}
	for sa, name := range s.receiving {
		s.received.higher(highest, name, sa.Sequence())
	}
	return errors.Join(s.noteReceived(highest, false), s.noteLiving(maps.Keys(s.living), false))
}

func (s *Store) noteReceived(highest map[id]uint64, sync bool) error {
	if err := s.received.note(highest, sync); err != nil {
		return fmt.Errorf("note the sequence numbers that were received: %w", err)
	}
	return nil
}

// forget notes for the last time what associations have received that nobody uses any more.
func (s *Store) forget(list ...*ipsec.SA) error {
	highest := map[id]uint64{}
	for _, sa := range list {
		if name, is := s.receiving[sa]; is {
			s.received.higher(highest, name, sa.Sequence())
			delete(s.receiving, sa)
		}
	}
	return s.noteReceived(highest, true)
}
