// Package sequences keeps the sequence numbers of outbound associations over restarts of
// the router, so that none is ever used twice with its key.
//
// A file for each association has a number below which all may have been used. It is
// written ahead: the association is limited to what the file says, and a new limit is in
// force only when it is on the disk. After a crash the numbers between are skipped.
package sequences

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/warproute/warproute/ipsec"
)

// ahead is how many numbers are reserved at a time: what a fast association uses in a
// few seconds, and less than a hundredth of those that there are without ESN.
const ahead = 1 << 25

// Store is a directory of such files.
type Store struct {
	dir  string
	kept map[*ipsec.SA]*kept
}

type kept struct {
	path  string
	limit uint64
}

// Open makes the directory if it is not there.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep sequence numbers: %w; set ipsec.state to a directory that can be written", err)
	}
	return &Store{dir: dir, kept: map[*ipsec.SA]*kept{}}, nil
}

// Keep has an outbound association go on behind all numbers that were used with its
// key, and notes those that it uses from now on. The key identifies it: under another name it
// goes on all the same.
func (s *Store) Keep(sa *ipsec.SA, key []byte) error {
	id := sha256.Sum256(append([]byte("warproute sequence numbers\x00"), key...))
	k := &kept{path: filepath.Join(s.dir, hex.EncodeToString(id[:16]))}
	text, err := os.ReadFile(k.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("read the sequence numbers that were used: %w", err)
	default:
		used, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return fmt.Errorf("read the sequence numbers that were used: %s is damaged (%q); give the association a new key and remove the file", k.path, text)
		}
		sa.Skip(used)
	}
	s.kept[sa] = k
	return s.extend(sa, k)
}

// Extend writes ahead for the associations that need it; it is to be called every
// second or so.
func (s *Store) Extend() error {
	var errs []error
	for sa, k := range s.kept {
		if k.limit-sa.Sequence() < ahead/2 {
			errs = append(errs, s.extend(sa, k))
		}
	}
	return errors.Join(errs...)
}

func (s *Store) extend(sa *ipsec.SA, k *kept) error {
	limit := sa.Sequence() + ahead
	if err := write(k.path, limit); err != nil {
		return err
	}
	k.limit = limit
	sa.Limit(limit)
	return nil
}

// Release notes what an association that nobody uses any more has used, exactly.
func (s *Store) Release(sa *ipsec.SA) error {
	k := s.kept[sa]
	if k == nil {
		return nil
	}
	delete(s.kept, sa)
	return write(k.path, sa.Sequence())
}

// Close releases every association.
func (s *Store) Close() error {
	var errs []error
	for sa := range s.kept {
		errs = append(errs, s.Release(sa))
	}
	return errors.Join(errs...)
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
