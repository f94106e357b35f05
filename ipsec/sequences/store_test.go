package sequences

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/warproute/warproute/ipsec"
)

var key = bytes.Repeat([]byte{1}, 20)

func newSA(t *testing.T, name string, alter ...func(*ipsec.Config)) *ipsec.SA {
	t.Helper()
	c := ipsec.Config{
		Name: name, SPI: 0x100, Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"),
		Suite: "aes128gcm16", Key: bytes.Clone(key),
	}
	for _, a := range alter {
		a(&c)
	}
	sa, err := ipsec.NewSA(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	return sa
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// start is what a router does with an association; it returns its first number.
func start(t *testing.T, s *Store, name string) (*ipsec.SA, uint64) {
	t.Helper()
	sa := newSA(t, name)
	if err := s.Keep(sa, key); err != nil {
		t.Fatal(err)
	}
	first, n := sa.Reserve(1)
	if n != 1 {
		t.Fatal("no number is left")
	}
	return sa, first
}

// A router that stops goes on with the next number, one that dies behind all that it
// may have used; also under another name.
func TestNumbersAreUsedOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir)
	sa, first := start(t, s, "a")
	if first != 1 {
		t.Fatalf("begins with %d", first)
	}
	sa.Reserve(999)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
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
	if other := newSA(t, "d"); s.Keep(other, append(key, 1)) != nil || other.Sequence() != 0 {
		t.Error("another key does not begin anew")
	}
}

func TestExtendKeepsAhead(t *testing.T) {
	s := open(t, t.TempDir())
	sa, _ := start(t, s, "a")
	for range 10 {
		if _, n := sa.Reserve(ahead / 2); n != ahead/2 {
			t.Fatal("the association ran out of numbers")
		}
		if err := s.Extend(); err != nil {
			t.Fatal(err)
		}
	}
}

// What cannot be noted is not used.
func TestWithoutADiskNumbersEnd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir)
	sa, _ := start(t, s, "a")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	sa.Reserve(ahead - 1)
	if err := s.Extend(); err == nil {
		t.Error("a directory that is gone is no error")
	}
	if _, n := sa.Reserve(1); n != 0 {
		t.Error("a number was used that is noted nowhere")
	}
}

func TestDamagedFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	start(t, s, "a")
	die(t, s)
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	path := filepath.Join(dir, files[0].Name())
	for _, text := range []string{"", "x", "-1", "99999999999999999999999"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, dir)
		if err := s.Keep(newSA(t, "a"), key); err == nil {
			t.Errorf("%q is taken for a number", text)
		}
		die(t, s)
	}
}

// die is the end of a router that has no time to note anything.
func die(t *testing.T, s *Store) {
	t.Helper()
	if err := s.lock.Close(); err != nil {
		t.Fatal(err)
	}
}

// A configuration that is read again may have an association under another name, or with
// another lifetime: both are there for a moment, and the old one ends later.
func TestAssociationsWithOneKeyShareNoNumber(t *testing.T) {
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
	if err := s.Extend(); err != nil {
		t.Fatal(err)
	}
	if more, n := old.Reserve(ahead / 2); n > 0 && more+uint64(n) > first && more <= first {
		t.Errorf("the old association goes on with %d to %d, and the new one has %d", more, more+uint64(n)-1, first)
	}
	if lastOfOld >= first {
		t.Errorf("both have number %d", first)
	}
	last := reserve(successor, 5)
	if err := s.Release(old); err != nil {
		t.Fatal(err)
	}
	die(t, s)
	if _, again := start(t, open(t, dir), "new"); again <= last {
		t.Errorf("after a crash it goes on with %d, and %d was used", again, last)
	}
}

// Two stores would give the same numbers.
func TestADirectoryIsOfOneRouter(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if second, err := Open(dir); err == nil {
		t.Errorf("%s was opened twice", second.dir)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
}

// Extended numbers last as long as a tick at any rate, and a receiver that has seen
// nothing for some restarts still tells which half they are of.
func TestExtendedNumbersAreAhead(t *testing.T) {
	dir := t.TempDir()
	for range 4 {
		s := open(t, dir)
		sa := newSA(t, "a", func(c *ipsec.Config) { c.ESN = true })
		if err := s.Keep(sa, key); err != nil {
			t.Fatal(err)
		}
		if first, n := sa.Reserve(100_000_000); n != 100_000_000 || first >= 1<<31 {
			t.Fatalf("%d numbers, from %d on", n, first)
		}
		die(t, s)
	}
}
