package sequences

import (
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/warproute/warproute/ipsec"
)

// Lifetimes go on over restarts: what bounds the use of a key would bound nothing if each
// start began anew. What an association was used for is noted by key, SPI and direction, if
// it has limits: packets and bytes behind the packets, by Note, so that after a crash those of
// the last NoteEvery count once more, and after one of the host those of the last syncEvery;
// the age as when it began, by a time of the store's own.
//
// That goes on with the router's, and from one router to the next with the host's time of
// day. So a time of day that is set while a router runs, as on hosts that start without one,
// makes no association older or younger.

// timeOfDay is the host's.
var timeOfDay = time.Now

// By what the store's time is noted, and the time of day then, both in nanoseconds.
var (
	ownTime = idOf("time")
	atDay   = idOf("time of day")
)

// resume has the store's time go on.
func (s *Store) resume() {
	s.resumed = time.Now()
	noted, is := s.lifetimes.number(ownTime)
	if day, _ := s.lifetimes.number(atDay); is {
		s.elapsed = time.Duration(noted) + max(0, timeOfDay().Sub(time.Unix(0, int64(day))))
	}
}

// now is the store's time.
func (s *Store) now() time.Duration { return s.elapsed + time.Since(s.resumed) }

// lived is an association with a limit: by what it is noted, and what that was used for
// before.
type lived struct {
	packets, bytes, begun id
	before                ipsec.Limits
}

// Live has associations go on with the lifetimes of those with their keys, SPIs and
// directions that were there before, and notes what they are used for from now on. Those
// without limits are left alone.
func (s *Store) Live(list ...Association) error {
	if err := s.noteLiving(maps.Keys(s.living), false); err != nil { // also of those whose places others take
		return err
	}
	begun := map[id]uint64{}
	now := s.now()
	for _, a := range list {
		c := a.SA.Config()
		if c.Lifetime == (ipsec.Lifetime{}) {
			continue
		}
		what := binary.BigEndian.AppendUint32([]byte{byte(c.Direction)}, c.SPI)
		l := &lived{packets: idOf("packets", what, a.Key), bytes: idOf("bytes", what, a.Key), begun: idOf("beginning", what, a.Key)}
		l.before.Packets, _ = s.lifetimes.number(l.packets)
		l.before.Bytes, _ = s.lifetimes.number(l.bytes)
		if at, is := s.lifetimes.number(l.begun); is {
			l.before.Age = max(0, now-time.Duration(at))
		} else {
			begun[l.begun] = uint64(now)
		}
		a.SA.WasUsed(l.before)
		s.living[a.SA] = l
	}
	return s.noteLifetimes(begun, true)
}

// noteLiving notes what associations with limits were used for.
func (s *Store) noteLiving(sas iter.Seq[*ipsec.SA], sync bool) error {
	used := map[id]uint64{}
	for sa := range sas {
		if l := s.living[sa]; l != nil {
			st := sa.Stats()
			s.lifetimes.higher(used, l.packets, l.before.Packets+st.Packets)
			s.lifetimes.higher(used, l.bytes, l.before.Bytes+st.Bytes)
		}
	}
	return s.noteLifetimes(used, sync)
}

// noteLifetimes notes these numbers, and the time, where there is something that ages.
func (s *Store) noteLifetimes(list map[id]uint64, sync bool) error {
	if len(s.living) > 0 {
		list[ownTime], list[atDay] = uint64(s.now()), uint64(timeOfDay().UnixNano())
	}
	if err := s.lifetimes.note(list, sync); err != nil {
		return fmt.Errorf("note what of lifetimes is used: %w", err)
	}
	return nil
}

// end notes for the last time what associations were used for that nobody uses any more.
func (s *Store) end(list ...*ipsec.SA) error {
	err := s.noteLiving(slices.Values(list), true)
	for _, sa := range list {
		delete(s.living, sa)
	}
	return err
}
