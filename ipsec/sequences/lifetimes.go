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
// the last NoteEvery count once more; the age as when it began, by the host's time of day.

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
	now := time.Now()
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
			l.before.Age = max(0, now.Sub(time.Unix(int64(at), 0)))
		} else {
			begun[l.begun] = uint64(now.Unix())
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

func (s *Store) noteLifetimes(list map[id]uint64, sync bool) error {
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
