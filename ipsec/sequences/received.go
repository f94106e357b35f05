package sequences

import (
	"encoding/binary"
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

// syncEvery is how often Note waits for the disk, if there is anything to note.
const syncEvery = 10 * time.Second

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

// Note notes what was received, and what of lifetimes is used.
func (s *Store) Note() error {
	if err := s.noteLiving(maps.Keys(s.living), false); err != nil {
		return err
	}
	highest := map[id]uint64{}
	for sa, name := range s.receiving {
		s.received.higher(highest, name, sa.Sequence())
	}
	err := s.received.note(highest, false)
	s.unsynced = s.unsynced || len(highest) > 0
	if err == nil && s.unsynced && time.Since(s.synced) >= syncEvery {
		s.unsynced, s.synced = false, time.Now()
		err = s.received.sync()
	}
	if err != nil {
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
	if err := s.received.note(highest, true); err != nil {
		return fmt.Errorf("note the sequence numbers that were received: %w", err)
	}
	return nil
}
