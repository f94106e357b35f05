// Package sequences keeps the sequence numbers of outbound associations over restarts of
// the router, so that none is ever used twice with its key.
//
// A file for each key has a number up to which all may have been used. It is written
// ahead: the association is limited to what the file says, and a new limit is in
// force only when it is on the disk. After a crash the numbers between are skipped.
package sequences

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

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

// Store is a directory of such files. It is the only one of that directory.
type Store struct {
	dir   string
	lock  *os.File // of dir: released when it is closed, also by the end of the process
	kept  map[*ipsec.SA]*kept
	files map[string]*file // of those that are kept, by path
}

// kept is an association that is kept.
type kept struct {
	*file
	limit uint64 // of its numbers
}

// file is the file of a key. Associations with one key, of which one may be about to take
// the other's place, have parts of its numbers.
type file struct {
	path string
	end  uint64 // what the file says; the limit of the association that has the last part
	sas  int
}

// Open makes the directory if it is not there.
func Open(dir string) (*Store, error) {
	fail := func(err error) (*Store, error) {
		return nil, fmt.Errorf("keep sequence numbers: %w; set ipsec.state to a directory that can be written", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(err)
	}
	lock, err := os.Open(dir)
	if err != nil {
		return fail(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("keep sequence numbers: lock %s: %w; another router uses it: set ipsec.state to a directory of this one's", dir, err)
	}
	return &Store{dir: dir, lock: lock, kept: map[*ipsec.SA]*kept{}, files: map[string]*file{}}, nil
}

// Keep has an outbound association go on behind all numbers that were used with its
// key, and notes those that it uses from now on. The key is what IVs repeat with: the
// cipher's with its salt, or, without a cipher, that of authentication. It identifies the
// file: under another name, or with another SPI, numbers go on all the same.
func (s *Store) Keep(sa *ipsec.SA, key []byte) error {
	h := sha256.New()
	h.Write([]byte("warproute sequence numbers\x00"))
	h.Write(key)
	path := filepath.Join(s.dir, hex.EncodeToString(h.Sum(nil)[:16]))
	f := s.files[path]
	if f == nil {
		end, err := read(path)
		if err != nil {
			return err
		}
		f = &file{path: path, end: end}
	}
	k := &kept{file: f}
	if err := k.extend(sa); err != nil {
		return err
	}
	f.sas++
	s.files[path], s.kept[sa] = f, k
	return nil
}

// Extend writes ahead for the associations that need it; it is to be called every
// second or so.
func (s *Store) Extend() error {
	var errs []error
	for sa, k := range s.kept {
		if used := sa.Sequence(); used > k.limit || k.limit-used < reserve(sa)/2 {
			errs = append(errs, k.extend(sa))
		}
	}
	return errors.Join(errs...)
}

func reserve(sa *ipsec.SA) uint64 {
	if sa.Extended() {
		return aheadExtended
	}
	return ahead
}

// extend gives an association the numbers behind all that the file has. If some of those
// are another's, it leaves out what it has of its own.
func (k *kept) extend(sa *ipsec.SA) error {
	from := sa.Sequence()
	if k.limit != k.end {
		from = k.end
	}
	limit := max(k.end, from+min(reserve(sa), math.MaxUint64-from))
	if err := write(k.path, limit); err != nil {
		return err
	}
	sa.Skip(from) // before there are more, lest it takes those of another
	sa.Limit(limit)
	k.limit, k.end = limit, limit
	return nil
}

// Release notes what an association that nobody uses any more has used, exactly unless
// numbers behind that are another's.
func (s *Store) Release(sa *ipsec.SA) error {
	k := s.kept[sa]
	if k == nil {
		return nil
	}
	delete(s.kept, sa)
	if k.sas--; k.sas == 0 {
		delete(s.files, k.path)
	}
	if k.limit != k.end {
		return nil
	}
	used := sa.Sequence()
	if err := write(k.path, used); err != nil {
		return err
	}
	k.end = used
	return nil
}

// Close releases every association, and the directory.
func (s *Store) Close() error {
	var errs []error
	for sa := range s.kept {
		errs = append(errs, s.Release(sa))
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// read returns the number in a file, 0 if there is none.
func read(path string) (uint64, error) {
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

// write replaces a file as a whole; when it returns, the disk has it.
func write(path string, n uint64) error {
	fail := func(err error) error { return fmt.Errorf("note the sequence numbers that are used: %w", err) }
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fail(err)
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintln(f, n)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fail(err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fail(err)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fail(err)
	}
	if err = errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fail(err)
	}
	return nil
}
