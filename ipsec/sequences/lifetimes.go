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
// before. Until nobody uses it any more, it may be used beside the one that has taken its
// place: then that one goes on with what this one was used for up to handed.
type lived struct {
	packets, bytes, begun id
	before                ipsec.Limits
	heir                  *ipsec.SA
	handed                ipsec.Limits
}

// used is what was used until now, by association and before.
func (l *lived) used(sa *ipsec.SA) ipsec.Limits {
	st := sa.Stats()
	return ipsec.Limits{Packets: l.before.Packets + st.Packets, Bytes: l.before.Bytes + st.Bytes}
}

// Live has associations go on with the lifetimes of those with their keys, SPIs and
// directions that were there before, and notes what they are used for from now on. Those
// without limits are left alone.
func (s *Store) Live(list ...Association) error {
	if err := s.noteLiving(maps.Keys(s.living), false); err != nil { // also of those whose places others take
		return err
	}
	placed := map[id]*ipsec.SA{}
	for sa, l := range s.living {
		placed[l.packets] = sa
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
		if old := placed[l.packets]; old != nil {
			o := s.living[old]
			u := o.used(old)
			o.heir, o.handed = a.SA, ipsec.Limits{Packets: min(l.before.Packets, u.Packets), Bytes: min(l.before.Bytes, u.Bytes)}
		}
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
			u := l.used(sa)
			s.lifetimes.higher(used, l.packets, u.Packets)
			s.lifetimes.higher(used, l.bytes, u.Bytes)
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

// end notes for the last time what associations were used for that nobody uses any more, and
// has those that have taken their places count the rest.
func (s *Store) end(list ...*ipsec.SA) error {
	err := s.noteLiving(slices.Values(list), true)
	for _, sa := range list {
		l := s.living[sa]
		if l == nil {
			continue
		}
		delete(s.living, sa)
		if heir := s.living[l.heir]; heir != nil {
			u := l.used(sa)
			rest := ipsec.Limits{Packets: u.Packets - l.handed.Packets, Bytes: u.Bytes - l.handed.Bytes}
			heir.before.Packets += rest.Packets
			heir.before.Bytes += rest.Bytes
			l.heir.AlsoUsed(rest)
		}
	}
	return err
}
