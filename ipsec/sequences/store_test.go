package sequences

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
)

var testKey = bytes.Repeat([]byte{1}, 20)

func newSA(t *testing.T, name string, alter ...func(*ipsec.Config)) *ipsec.SA {
	t.Helper()
	c := ipsec.Config{
		Name: name, SPI: 0x100, Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"),
		Suite: "aes128gcm16", Key: bytes.Clone(testKey),
	}
	for _, a := range alter {
		a(&c)
	}
	sa, err := ipsec.NewSA(c, 1)
	require.NoError(t, err)
	return sa
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	require.NoError(t, err)
	return s
}

// start starts an outbound SA as a router does, and returns its first number.
func start(t *testing.T, s *Store, name string) (*ipsec.SA, uint64) {
	t.Helper()
	sa := newSA(t, name)
	require.NoError(t, s.Keep(Association{sa, testKey}))
	first, n := sa.Reserve(1)
	if n != 1 {
		t.Fatal("no number is left")
	}
	return sa, first
}

// A router that stopped continues with the next number, one that crashed behind all numbers that it may
// have used; also under another name.
func TestNumbersAreUsedOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir)
	sa, first := start(t, s, "a")
	if first != 1 {
		t.Fatalf("begins with %d", first)
	}
	sa.Reserve(999)
	require.NoError(t, s.Close())
	s = open(t, dir)
	sa, first = start(t, s, "b")
	if first != 1001 {
		t.Errorf("after a stop it goes on with %d, want 1001", first)
	}
	for used := uint64(1001); ; { // until it dies, without having noted any further
		_, n := sa.Reserve(1 << 20)
		if used += uint64(n); n == 0 {
			die(t, s)
			s = open(t, dir)
			if _, first = start(t, s, "c"); first <= used {
				t.Errorf("after a crash it goes on with %d, and %d were used", first, used)
			}
			break
		}
	}
	if other := newSA(t, "d"); s.Keep(Association{other, append(testKey, 1)}) != nil || other.Sequence() != 0 {
		t.Error("another key does not start from 1")
	}
}

func TestExtendKeepsAhead(t *testing.T) {
	s := open(t, t.TempDir())
	sa, _ := start(t, s, "a")
	for range 10 {
		if _, n := sa.Reserve(ahead / 2); n != ahead/2 {
			t.Fatal("the association ran out of numbers")
		}
		require.NoError(t, s.Extend())
	}
}

// Numbers that cannot be stored are not used.
func TestNumbersEndWhenTheDiskFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir)
	sa, _ := start(t, s, "a")
	require.NoError(t, s.used.file.Close())
	sa.Reserve(ahead - 1)
	if err := s.Extend(); err == nil {
		t.Error("a disk that takes nothing is no error")
	}
	if _, n := sa.Reserve(1); n != 0 {
		t.Error("a number was used that is not stored")
	}
}

// Removing or restoring the files of a running router does not make it use numbers twice.
func TestRemovedFilesAreRestored(t *testing.T) {
	for what, take := range map[string]func(dir string) error{
		"the directory is removed": os.RemoveAll,
		"the file is removed":      func(dir string) error { return os.Remove(filepath.Join(dir, "used")) },
		"the file is another": func(dir string) error {
			other := filepath.Join(dir, "other")
			s, err := Open(other)
			if err != nil {
				return err
			}
			return errors.Join(s.Close(), os.Rename(filepath.Join(other, "used"), filepath.Join(dir, "used")))
		},
	} {
		for _, end := range []func(*Store) error{(*Store).Extend, (*Store).Close} {
			dir := filepath.Join(t.TempDir(), "state")
			s := open(t, dir)
			sa, _ := start(t, s, "a")
			sa.Reserve(999)
			in := newSA(t, "in", inbound)
			s.Receive(Association{in, testKey})
			in.Accept(77)
			if err := errors.Join(s.Note(), take(dir), s.Note(), end(s)); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			_ = s.lock.Close() // it dies, if it has not ended
			s = open(t, dir)
			if _, first := start(t, s, "a"); first <= 1000 {
				t.Errorf("%s: number %d is used twice", what, first)
			}
			again := newSA(t, "in", inbound)
			if s.Receive(Association{again, testKey}); again.Accept(77) {
				t.Errorf("%s: number 77 is received twice", what)
			}
			die(t, s)
		}
	}
}

// A directory of an older release, with a file per key, is read.
func TestFilesOfOldReleasesAreRead(t *testing.T) {
	dir := t.TempDir()
	name := idOf("sequence numbers", testKey)
	path := filepath.Join(dir, hex.EncodeToString(name[:]))
	for text, want := range map[string]uint64{"12345\n": 12346, "": 0, "x": 0, "-1": 0, "99999999999999999999999": 0} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		s := open(t, dir)
		sa := newSA(t, "a")
		if err := s.Keep(Association{sa, testKey}); (err == nil) != (want != 0) || err == nil && sa.Sequence()+1 != want {
			t.Errorf("%q: %v, goes on behind %d", text, err, sa.Sequence())
		}
		die(t, s)
		require.NoError(t, os.Remove(filepath.Join(dir, "used")))
	}
}

// die ends a router without giving it time to store anything.
func die(t *testing.T, s *Store) {
	t.Helper()
	require.NoError(t, s.lock.Close())
}

// A reloaded configuration may have an SA under another name or with another lifetime: both exist for a
// moment, and the old one ends later.
func TestSAsWithOneKeyShareNoNumber(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	old, _ := start(t, s, "old")
	reserve := func(sa *ipsec.SA, n int) (last uint64) {
		t.Helper()
		first, got := sa.Reserve(n)
		if got != n {
			t.Fatalf("%d numbers of %d", got, n)
		}
		return first + uint64(n) - 1
	}
	reserve(old, 1000)
	successor, first := start(t, s, "new")
	lastOfOld := reserve(old, ahead*3/4) // until no worker knows it any more
	require.NoError(t, s.Extend())
	if more, n := old.Reserve(ahead / 2); n > 0 && more+uint64(n) > first && more <= first {
		t.Errorf("the old association goes on with %d to %d, and the new one has %d", more, more+uint64(n)-1, first)
	}
	if lastOfOld >= first {
		t.Errorf("both have number %d", first)
	}
	last := reserve(successor, 5)
	require.NoError(t, s.Release(old))
	die(t, s)
	if _, again := start(t, open(t, dir), "new"); again <= last {
		t.Errorf("after a crash it goes on with %d, and %d was used", again, last)
	}
}

// Two stores of one directory would use the same numbers.
func TestDirectoryIsLockedByOneRouter(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := Open(dir); err == nil {
		t.Errorf("%s was opened twice", dir)
	}
	require.NoError(t, s.Close())
	open(t, dir)
}

// Extended numbers last for a tick at any rate, and a receiver that missed some restarts still infers the
// right upper half.
func TestExtendedNumbersAreAhead(t *testing.T) {
	dir := t.TempDir()
	for range 4 {
		s := open(t, dir)
		sa := newSA(t, "a", func(c *ipsec.Config) { c.ESN = true })
		require.NoError(t, s.Keep(Association{sa, testKey}))
		if first, n := sa.Reserve(100_000_000); n != 100_000_000 || first >= 1<<31 {
			t.Fatalf("%d numbers, from %d on", n, first)
		}
		die(t, s)
	}
}

// Thousands of SAs start, continue and end with a few syncs, and their exact use is on disk.
func TestManySAsWaitForTheDiskOnce(t *testing.T) {
	const many = 1000
	dir := t.TempDir()
	s := open(t, dir)
	var list []Association
	for i := range many {
		k := bytes.Clone(testKey)
		binary.BigEndian.PutUint32(k, uint32(i))
		list = append(list, Association{newSA(t, fmt.Sprint(i), func(c *ipsec.Config) { c.Key = bytes.Clone(k) }), k})
	}
	waits := func(what string, do func() error) {
		t.Helper()
		before := s.used.syncs
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if n := s.used.syncs - before; n > 2 {
			t.Errorf("%s: %d waits for the disk", what, n)
		}
	}
	waits("keep", func() error { return s.Keep(list...) })
	for i, a := range list {
		a.SA.Reserve(ahead/2 + i)
	}
	waits("extend", s.Extend)
	waits("close", s.Close)
	s = open(t, dir)
	var again []Association
	for _, a := range list {
		again = append(again, Association{newSA(t, "again"), a.Key})
	}
	waits("keep again", func() error { return s.Keep(again...) })
	for i, a := range again {
		if want := uint64(ahead/2 + i); a.SA.Sequence() != want {
			t.Fatalf("association %d goes on behind %d, want %d", i, a.SA.Sequence(), want)
		}
	}
}

// Of SAs that are kept together, all are kept or none, and none gets the numbers of one that is not.
func TestKeepIsWholeOrNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	first, _ := start(t, s, "first")
	other := bytes.Repeat([]byte{2}, 20)
	name := idOf("sequence numbers", other)
	require.NoError(t, os.WriteFile(filepath.Join(dir, hex.EncodeToString(name[:])), []byte("x"), 0o600))
	successor, bad := newSA(t, "successor"), newSA(t, "bad")
	if err := s.Keep(Association{successor, testKey}, Association{bad, other}); err == nil {
		t.Fatal("a damaged file is no error")
	}
	if len(s.kept) != 1 || s.keys[idOf("sequence numbers", testKey)].sas != 1 {
		t.Errorf("%d associations are kept", len(s.kept))
	}
	// The same if the disk fails.
	require.NoError(t, s.used.file.Close())
	before := s.keys[idOf("sequence numbers", testKey)].end
	if err := s.Keep(Association{successor, testKey}); err == nil {
		t.Fatal("a disk that takes nothing is no error")
	}
	if f := s.keys[idOf("sequence numbers", testKey)]; f.end != before || len(s.kept) != 1 {
		t.Errorf("numbers up to %d are reserved, want %d", f.end, before)
	}
	if _, n := first.Reserve(1); n != 1 {
		t.Error("the association before has none left")
	}
}
