package sequences

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/warproute/warproute/ipsec"
)

// A router hands its store over to the process that replaces it, without a wait for the disk while packets wait:
//
//	old                                 new
//	ReserveNonceBase: store a nonce base
//	(workers have stopped)
//	HandOver: note, unlock        ──►   Inherit: lock, read
//	                                    Continue: numbers up to the same limits
//
// The files still contain the ends of the reserved ranges, so that a crash of the new router at any time skips
// to them.

// ReserveNonceBase draws a nonce base for the process that continues after this one, and stores it.
func (s *Store) ReserveNonceBase() (base uint64, err error) {
	if err := s.noteNonceBase(); err != nil {
		return 0, err
	}
	base = s.nonces.Reserve()
	return base, s.storeNonceBase(base)
}

// HandOver writes the received numbers and the used lifetimes, and unlocks the directory. It does not wait for
// the disk. No worker runs, and the store is not used again.
func (s *Store) HandOver() error {
	tables := []*table{s.used, s.received, s.lifetimes}
	for _, t := range tables {
		t.synced = time.Now() // so that note does not sync; the next owner does
	}
	err := s.Note()
	for _, t := range tables {
		err = errors.Join(err, t.file.Close())
	}
	return errors.Join(err, s.lock.Close())
}

// inheritTimeout limits the wait for the lock of the process that hands over.
const inheritTimeout = time.Second

// Inherit opens the store that another process has handed over. The nonce base is the one that it has reserved.
func Inherit(dir string, n *ipsec.Nonces, base uint64) (_ *Store, err error) {
	s := newStore(dir)
	if s.lock, err = os.Open(dir); err != nil {
		return nil, fmt.Errorf("inherit sequence numbers: %w", err)
	}
	for end := time.Now().Add(inheritTimeout); ; time.Sleep(time.Millisecond) {
		if err = syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil || time.Now().After(end) {
			break
		}
	}
	if err == nil {
		err = s.openTables()
	}
	if err != nil {
		return nil, fmt.Errorf("inherit sequence numbers of %s: %w", dir, errors.Join(err, s.shut()))
	}
	s.markUnsynced()
	s.resume()
	s.avoidStored(n)
	n.Use(base)
	s.nonces, s.nonceBase = n, base
	return s, nil
}

// markUnsynced has the next notes sync what the other process has not.
func (s *Store) markUnsynced() {
	for _, t := range []*table{s.used, s.received, s.lifetimes} {
		t.unsynced = true
	}
}

// Inherited is an SA and its state in the process that has handed over.
type Inherited struct {
	Association
	State ipsec.State
}

// Continue makes SAs continue from the states that another process has handed over, with its reserved numbers.
// It does not wait for the disk.
func (s *Store) Continue(list ...Inherited) error {
	var all []Association
	for _, a := range list {
		all = append(all, a.Association)
		if c := a.SA.Config(); c.Direction == ipsec.In {
			s.Receive(a.Association)
			a.SA.Continue(a.State)
			continue
		}
		if err := s.continueOut(a); err != nil {
			return err
		}
	}
	return s.live(all, false)
}

// continueOut continues the numbers of an outbound SA within their range.
func (s *Store) continueOut(a Inherited) error {
	name := idOf("sequence numbers", a.Key)
	k := s.keys[name]
	if k == nil {
		end, is := s.used.number(name)
		if !is || a.State.Limit == 0 || a.State.Sequence > a.State.Limit || a.State.Limit > end {
			return fmt.Errorf("continue the sequence numbers of SA %s: the number %d, with %d reserved, does not match the stored one, %d", a.SA.Config().Name, a.State.Sequence, a.State.Limit, end)
		}
		k = &key{id: name, end: end}
		s.keys[name] = k
	}
	a.SA.Continue(a.State)
	a.SA.Limit(a.State.Limit)
	k.sas++
	s.kept[a.SA] = &kept{key: k, limit: a.State.Limit}
	return nil
}

// ID identifies the SA in another process. It does not reveal the key.
func (a Association) ID() string {
	c := a.SA.Config()
	what := binary.BigEndian.AppendUint32([]byte{byte(c.Direction)}, c.SPI)
	sum := idOf("handed over", what, c.Dst.AsSlice(), a.Key)
	return hex.EncodeToString(sum[:])
}
