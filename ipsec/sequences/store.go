// Package sequences keeps the sequence numbers of outbound associations over restarts of
// the router, so that none is ever used twice with its key. A router that loses them sends
// packets that its peers refuse; nonces stay unique, see ipsec.Nonces.
//
// A file has, for each key, a number up to which all may have been used. It is written
// ahead: the association is limited to what the file says, and a new limit is in
// force only when it is on the disk. After a crash the numbers between are skipped.
// What is written for many associations at once waits for the disk once.
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

// How many numbers are reserved at a time: what a fast association uses in a few seconds,
// and less than a hundredth of those that there are without ESN. With ESN, what all
// packets of a GPU use in that time; a receiver makes out a gap of up to 2^32, so that a
// dozen crashes may come between two packets.
const (
	ahead         = 1 << 25
	aheadExtended = 1 << 28
)

// Store is a directory with such a file, another of what was received, and one of what of
// lifetimes is used. It is the only one of that directory.
type Store struct {
	dir  string
	lock *os.File // of dir: released when it is closed, also by the end of the process
	used *table
	kept map[*ipsec.SA]*kept
	keys map[id]*key // of those that are kept

	// See bases.go.
	nonces *ipsec.Nonces
	base   uint64 // noted last

	// See received.go.
	received  *table
	receiving map[*ipsec.SA]id

	// See lifetimes.go.
	lifetimes *table
	living    map[*ipsec.SA]*lived
	elapsed   time.Duration // of the store's time, at resumed
	resumed   time.Time
}

// Association is an outbound association, and the key that its numbers go by: what IVs
// repeat with. That is the cipher's with its salt or, without a cipher, that of
// authentication.
type Association struct {
	SA  *ipsec.SA
	Key []byte
}

// kept is an association that is kept.
type kept struct {
	*key
	limit uint64 // of its numbers
}

// key is what numbers go by. Associations with one key, of which one may be about to take
// the other's place, have parts of its numbers.
type key struct {
	id  id
	end uint64 // what the file says; the limit of the association that has the last part
	sas int
}

// Open makes the directory if it is not there.
func Open(dir string) (_ *Store, err error) {
	fail := func(err error) (*Store, error) {
		return nil, fmt.Errorf("keep sequence numbers: %w; set ipsec.state to a directory that can be written", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(err)
	}
	s := &Store{dir: dir, kept: map[*ipsec.SA]*kept{}, keys: map[id]*key{}, receiving: map[*ipsec.SA]id{}, living: map[*ipsec.SA]*lived{}}
	if s.lock, err = os.Open(dir); err != nil {
		return fail(err)
	}
	if err := syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		s.lock.Close()
		return nil, fmt.Errorf("keep sequence numbers: lock %s: %w; another router uses it: set ipsec.state to a directory of this one's", dir, err)
	}
	if err = s.openTables(); err == nil {
		err = s.lock.Sync() // also a router that died before that made names
	}
	if err != nil {
		return fail(errors.Join(err, s.shut()))
	}
	s.resume()
	return s, nil
}

// Keep has outbound associations go on behind all numbers that were used with their keys,
// and notes those that they use from now on; all of them, or none. Numbers go by the key
// alone: under another name, or with another SPI, they go on all the same.
func (s *Store) Keep(list ...Association) error {
	var parts []part
	begun := map[id]*key{}
	for _, a := range list {
		name := idOf("sequence numbers", a.Key)
		k := cmp.Or(s.keys[name], begun[name])
		if k == nil {
			end, is := s.used.number(name)
			if !is {
				var err error
				if end, err = s.formerly(name); err != nil {
					return err
				}
			}
			k = &key{id: name, end: end}
			begun[name] = k
		}
		parts = append(parts, part{sa: a.SA, kept: &kept{key: k}})
	}
	if err := s.extend(parts); err != nil {
		return err
	}
	for _, p := range parts {
		p.kept.sas++
		s.keys[p.kept.id], s.kept[p.sa] = p.kept.key, p.kept
	}
	return nil
}

// idOf is what something is noted by, without telling the key.
func idOf(what string, parts ...[]byte) id {
	text := make([]byte, 0, 256) // longer than any: what grows leaves copies behind
	text = append(text, "warproute "+what+"\x00"...)
	for _, part := range parts {
		text = append(text, part...)
	}
	sum := sha256.Sum256(text)
	clear(text)
	return id(sum[:])
}

// formerly returns what a file of its own says of a key, as there was one for each once.
func (s *Store) formerly(name id) (uint64, error) {
	path := filepath.Join(s.dir, hex.EncodeToString(name[:]))
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the sequence numbers that were used: %w", err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the sequence numbers that were used: %s is damaged (%q); give the association a new key and remove the file", path, text)
	}
	return n, nil
}

// Extend writes ahead for the associations that need it; it is to be called every
// second or so.
func (s *Store) Extend() error {
	var parts []part
	for sa, k := range s.kept {
		if used := sa.Sequence(); used > k.limit || k.limit-used < reserve(sa)/2 {
			parts = append(parts, part{sa: sa, kept: k})
		}
	}
	return errors.Join(s.extend(parts), s.noteBase())
}

func reserve(sa *ipsec.SA) uint64 {
	if sa.Extended() {
		return aheadExtended
	}
	return ahead
}

// part is the numbers that an association is to have next.
type part struct {
	sa          *ipsec.SA
	kept        *kept
	from, limit uint64
}

// extend gives associations the numbers behind all that their keys have. One that had
// some before those of another leaves out what it has not used of them. On an error none
// has more than before.
func (s *Store) extend(parts []part) error {
	before := map[*key]uint64{}
	for i := range parts {
		p := &parts[i]
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
	for _, p := range parts {
		p.sa.Skip(p.from) // before there are more, lest it takes those of another
		p.sa.Limit(p.limit)
		p.kept.limit = p.limit
	}
	return nil
}

func (s *Store) noteUsed(ends map[id]uint64) error {
	if err := s.used.note(ends, true); err != nil {
		return fmt.Errorf("note the sequence numbers that are used: %w", err)
	}
	return nil
}

// Release notes what associations that nobody uses any more have used, exactly unless
// numbers behind that are another's, or have received. Those that are not kept it leaves
// alone.
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
			k.end = sa.Sequence()
			ends[k.id] = k.end
		}
	}
	return errors.Join(s.noteUsed(ends), s.forget(list...), s.end(list...))
}

// shut closes the files that are open, and then gives the directory up.
func (s *Store) shut() error {
	var errs []error
	for _, t := range []*table{s.used, s.received, s.lifetimes} {
		if t != nil && t.file != nil {
			errs = append(errs, t.close())
		}
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// Close releases every association, and the directory.
func (s *Store) Close() error {
	all := slices.AppendSeq(slices.Collect(maps.Keys(s.kept)), maps.Keys(s.receiving))
	return errors.Join(s.Release(slices.AppendSeq(all, maps.Keys(s.living))...), s.shut())
}
