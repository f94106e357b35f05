package sequences

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/warproute/warproute/ipsec"
)

// Received sequence numbers are stored as well, so that packets cannot be replayed to a restarted
// router: an inbound SA starts with all numbers up to the stored one marked as received.
//
// Note stores the number behind the packets and not ahead of them: a peer with idle connections sends
// few packets while its router restarts, and a router that skips numbers would refuse them for
// long. So stop, reload and start are exact; after a crash of the router the packets of the last
// NoteEvery can be replayed once each, and after a crash of the host those of the last syncEvery.
//
// Numbers are stored by key and SPI. A peer that restarts its numbers with both unchanged, such as
// one with static keys and no stored state, is refused until it passes the stored number, also by a
// restarted router. RFC 4303 section 3.3.3 forbids it, and with most suites it reveals plaintext.

// NoteEvery is the interval between calls of Note.
const NoteEvery = 250 * time.Millisecond

// Receive makes inbound SAs refuse numbers stored by their keys and SPIs, and stores received numbers
// from now on. SAs without a replay window accept all numbers.
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

// Note stores received numbers and used lifetimes. An error of one does not keep the other from being
// stored.
func (s *Store) Note() error {
	highest := map[id]uint64{}
	for sa, name := range s.receiving {
		s.received.higher(highest, name, sa.Sequence())
	}
	return errors.Join(s.noteReceived(highest, false), s.noteLiving(maps.Keys(s.living), false))
}

func (s *Store) noteReceived(highest map[id]uint64, sync bool) error {
	if err := s.received.note(highest, sync); err != nil {
		return fmt.Errorf("store the received sequence numbers: %w", err)
	}
	return nil
}

// forget stores the final received numbers of SAs that no worker has any more.
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
