// Package sequences stores the sequence numbers of SAs over restarts of the router. No outbound
// number is used twice with a key; a router that loses the store sends packets that its peers
// refuse, while nonces stay unique (ipsec.Nonces).
//
// A file holds, for each key, a number up to which all may have been used. It is written ahead of
// use: an SA is limited to the number in the file, and a new limit is active when it is on disk. After
// a crash the unused numbers below it are skipped. Numbers of many SAs are written with one wait
// for the disk.
package sequences

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warproute/warproute/ipsec"
)

// Sizes of reservations: the use of a fast SA in a few seconds, and less than a hundredth of all
// numbers without ESN. With ESN, the use of all packets of a GPU in that time; a receiver bridges a
// gap of up to 2^32, so a dozen crashes may happen between two packets.
const (
	ahead         = 1 << 25
	aheadExtended = 1 << 28
)

// Store is a directory with files of used numbers, received numbers and used lifetimes. A lock makes
// it the only Store of its directory.
type Store struct {
	dir  string
	lock *os.File // directory; the lock ends when it is closed, also by the end of the process
	used *table
	kept map[*ipsec.SA]*kept
	keys map[id]*key // of the SAs in keep

	// See bases.go.
	nonces    *ipsec.Nonces
	nonceBase uint64 // the last stored

	// See received.go.
	received  *table
	receiving map[*ipsec.SA]id

	// See lifetimes.go.
	lifetimes *table
	living    map[*ipsec.SA]*lifetime
	elapsed   time.Duration // store's time at resumed
	resumed   time.Time
}

// Association is an SA, and the key that its numbers are stored by: of an outbound SA, the key with which IVs
// must not repeat. That is the cipher's with its salt, or without a cipher the authentication key.
type Association struct {
	SA  *ipsec.SA
	Key []byte
}

// kept is an SA of the store.
type kept struct {
	*key
	limit uint64 // largest permitted number
}

// key holds the numbers of one key. SAs with the same key, such as an SA and its replacement, have
// separate ranges of its numbers.
type key struct {
	id  id
	end uint64 // the number in the file: the limit of the SA with the last range
	sas int
}

// Open opens the store of a directory, and creates the directory if needed.
func Open(dir string) (_ *Store, err error) {
	fail := func(err error) (*Store, error) {
		return nil, fmt.Errorf("keep sequence numbers: %w; set ipsec.state to a writable directory", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(err)
	}
	s := newStore(dir)
	if s.lock, err = os.Open(dir); err != nil {
		return fail(err)
	}
	if err := syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		s.lock.Close()
		return nil, fmt.Errorf("keep sequence numbers: lock %s: %w; another router uses it: set ipsec.state to another directory", dir, err)
	}
	if err = s.openTables(); err == nil {
		err = s.lock.Sync() // also for file names of a router that crashed before its sync
	}
	if err != nil {
		return fail(errors.Join(err, s.shut()))
	}
	s.resume()
	return s, nil
}

func newStore(dir string) *Store {
	return &Store{dir: dir, kept: map[*ipsec.SA]*kept{}, keys: map[id]*key{}, receiving: map[*ipsec.SA]id{}, living: map[*ipsec.SA]*lifetime{}}
}

// Keep makes outbound SAs continue after all numbers that were used with their keys, and stores the
// numbers that they use from now on; of all SAs or of none. Names and SPIs do not matter.
func (s *Store) Keep(list ...Association) error {
	var ranges []numberRange
	begun := map[id]*key{}
	for _, a := range list {
		name := idOf("sequence numbers", a.Key)
		k := cmp.Or(s.keys[name], begun[name])
		if k == nil {
			end, is := s.used.number(name)
			if !is {
				var err error
				if end, err = s.readOldFormat(name); err != nil {
					return err
				}
			}
			k = &key{id: name, end: end}
			begun[name] = k
		}
		ranges = append(ranges, numberRange{sa: a.SA, kept: &kept{key: k}})
	}
	if err := s.extend(ranges); err != nil {
		return err
	}
	for _, p := range ranges {
		p.kept.sas++
		s.keys[p.kept.id], s.kept[p.sa] = p.kept.key, p.kept
	}
	return nil
}

// idOf returns the id of a key in the files, a hash that does not reveal it.
func idOf(what string, parts ...[]byte) id {
	text := make([]byte, 0, 256) // long enough: growing would leave copies of the key
	text = append(text, "warproute "+what+"\x00"...)
	for _, part := range parts {
		text = append(text, part...)
	}
	sum := sha256.Sum256(text)
	clear(text)
	return id(sum[:])
}

// readOldFormat returns the number for a key in the format of older releases, one file per key.
func (s *Store) readOldFormat(name id) (uint64, error) {
	path := filepath.Join(s.dir, hex.EncodeToString(name[:]))
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the used sequence numbers: %w", err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the used sequence numbers: %s is damaged (%q); give the SA a new key and remove the file", path, text)
	}
	return n, nil
}

// Extend reserves more numbers for SAs that need them. It is called about every second.
func (s *Store) Extend() error {
	var ranges []numberRange
	for sa, k := range s.kept {
		if used := sa.Sequence(); used > k.limit || k.limit-used < reserve(sa)/2 {
			ranges = append(ranges, numberRange{sa: sa, kept: k})
		}
	}
	return errors.Join(s.extend(ranges), s.noteNonceBase())
}

func reserve(sa *ipsec.SA) uint64 {
	if sa.Extended() {
		return aheadExtended
	}
	return ahead
}

// numberRange is the next range of numbers of an SA.
type numberRange struct {
	sa          *ipsec.SA
	kept        *kept
	from, limit uint64
}

// extend reserves ranges behind all numbers of their keys. An SA whose old range lies below another
// SA's skips the rest of it. On an error no SA has more numbers than before.
func (s *Store) extend(ranges []numberRange) error {
	before := map[*key]uint64{}
	for i := range ranges {
		p := &ranges[i]
		k := p.kept
		if _, is := before[k.key]; !is {
			before[k.key] = k.end
		}
		p.from = p.sa.Sequence()
		if k.limit != k.end {
			p.from = k.end
		}
		p.limit = max(k.end, p.from+min(reserve(p.sa), math.MaxUint64-p.from))
		k.end = p.limit
	}
	ends := map[id]uint64{}
	for k := range before {
		ends[k.id] = k.end
	}
	if err := s.noteUsed(ends); err != nil {
		for k, end := range before {
			k.end = end
		}
		return err
	}
	for _, p := range ranges {
		p.sa.Skip(p.from) // before the limit rises, so that it takes no number of another SA
		p.sa.Limit(p.limit)
		p.kept.limit = p.limit
	}
	return nil
}

func (s *Store) noteUsed(ends map[id]uint64) error {
	if err := s.used.note(ends, true); err != nil {
		return fmt.Errorf("store the used sequence numbers: %w", err)
	}
	return nil
}

// Release stores the final numbers of SAs that no worker has any more: used ones exactly, unless
// another SA has a range behind them, and received ones. It ignores SAs that are not in the store.
func (s *Store) Release(list ...*ipsec.SA) error {
	ends := map[id]uint64{}
	for _, sa := range list {
		k := s.kept[sa]
		if k == nil {
			continue
		}
		delete(s.kept, sa)
		if k.sas--; k.sas == 0 {
			delete(s.keys, k.id)
		}
		if k.limit == k.end {
			k.end = sa.LastSequence()
			ends[k.id] = k.end
		}
	}
	return errors.Join(s.noteUsed(ends), s.forget(list...), s.end(list...))
}

// shut closes the files and unlocks the directory.
func (s *Store) shut() error {
	var errs []error
	for _, t := range []*table{s.used, s.received, s.lifetimes} {
		if t != nil && t.file != nil {
			errs = append(errs, t.close())
		}
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// Close releases every SA and the directory.
func (s *Store) Close() error {
	all := slices.AppendSeq(slices.Collect(maps.Keys(s.kept)), maps.Keys(s.receiving))
	return errors.Join(s.Release(slices.AppendSeq(all, maps.Keys(s.living))...), s.shut())
}
