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

// Lifetimes continue over restarts. The use of an SA with limits is stored by key, SPI and
// direction: packets and bytes behind the packets, by Note, so that a crash of the router loses
// those of the last NoteEvery, and a crash of the host those of the last syncEvery; the age as a
// start time on the store's own clock.
//
// The store's clock follows the router's monotonic time while a router runs, and the host's time of
// day from one router to the next. Setting the time of day while a router runs changes no age.

// timeOfDay reads the host's clock.
var timeOfDay = time.Now

// Ids of the store's time and the time of day at that moment, both in nanoseconds.
var (
	ownTime = idOf("time")
	atDay   = idOf("time of day")
)

// resume restores the store's clock.
func (s *Store) resume() {
	s.resumed = time.Now()
	noted, is := s.lifetimes.number(ownTime)
	if day, _ := s.lifetimes.number(atDay); is {
		s.elapsed = time.Duration(noted) + max(0, timeOfDay().Sub(time.Unix(0, int64(day))))
	}
}

// now returns the store's time.
func (s *Store) now() time.Duration { return s.elapsed + time.Since(s.resumed) }

// lifetime is the used lifetime of an SA with limits: its ids in the file, and the use by earlier SAs.
// An SA may be in use beside its replacement until no worker has it.
type lifetime struct {
	packets, bytes, begun id
	before                ipsec.Limits // use by earlier SAs
	replacement           *ipsec.SA    // nil: none
	inherited             ipsec.Limits // part of the use that the replacement counts already
}

// used returns the use so far, by the SA and earlier ones.
func (l *lifetime) used(sa *ipsec.SA) ipsec.Limits {
	st := sa.Stats()
	return ipsec.Limits{Packets: l.before.Packets + st.Packets, Bytes: l.before.Bytes + st.Bytes}
}

// Live makes SAs continue the lifetimes of earlier SAs with the same key, SPI and direction, and
// stores their use from now on. It ignores SAs without limits.
func (s *Store) Live(list ...Association) error { return s.live(list, true) }

func (s *Store) live(list []Association, sync bool) error {
	if err := s.noteLiving(maps.Keys(s.living), false); err != nil { // replaced SAs included
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
		l := &lifetime{packets: idOf("packets", what, a.Key), bytes: idOf("bytes", what, a.Key), begun: idOf("beginning", what, a.Key)}
		l.before.Packets, _ = s.lifetimes.number(l.packets)
		l.before.Bytes, _ = s.lifetimes.number(l.bytes)
		if old := placed[l.packets]; old != nil {
			o := s.living[old]
			u := o.used(old)
			o.replacement, o.inherited = a.SA, ipsec.Limits{Packets: min(l.before.Packets, u.Packets), Bytes: min(l.before.Bytes, u.Bytes)}
		}
		if at, is := s.lifetimes.number(l.begun); is {
			l.before.Age = max(0, now-time.Duration(at))
		} else {
			begun[l.begun] = uint64(now)
		}
		a.SA.SetPreviousUse(l.before)
		s.living[a.SA] = l
	}
	return s.noteLifetimes(begun, sync)
}

// noteLiving stores the use of SAs with limits.
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

// noteLifetimes stores these numbers, and the time if an SA has a limit of age.
func (s *Store) noteLifetimes(list map[id]uint64, sync bool) error {
	if len(s.living) > 0 {
		list[ownTime], list[atDay] = uint64(s.now()), uint64(timeOfDay().UnixNano())
	}
	if err := s.lifetimes.note(list, sync); err != nil {
		return fmt.Errorf("store the used lifetimes: %w", err)
	}
	return nil
}

// end stores the final use of SAs that no worker has any more, and adds the rest to their
// replacements.
func (s *Store) end(list ...*ipsec.SA) error {
	err := s.noteLiving(slices.Values(list), true)
	for _, sa := range list {
		l := s.living[sa]
		if l == nil {
			continue
		}
		delete(s.living, sa)
		if next := s.living[l.replacement]; next != nil {
			u := l.used(sa)
			rest := ipsec.Limits{Packets: u.Packets - l.inherited.Packets, Bytes: u.Bytes - l.inherited.Bytes}
			next.before.Packets += rest.Packets
			next.before.Bytes += rest.Bytes
			l.replacement.AddUse(rest)
		}
	}
	return err
}
