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

func newSA(t *testing.T, name string) *ipsec.SA {
	t.Helper()
	sa, err := ipsec.NewSA(ipsec.Config{
		Name: name, SPI: 0x100, Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"),
		Suite: "aes128gcm16", Key: bytes.Clone(key),
	}, 1)
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
			if _, first = start(t, open(t, dir), "c"); first <= used {
				t.Errorf("after a crash it goes on with %d, and %d were used", first, used)
			}
			break
		}
	}
	if other := newSA(t, "d"); open(t, dir).Keep(other, append(key, 1)) != nil || other.Sequence() != 0 {
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
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	path := filepath.Join(dir, files[0].Name())
	for _, text := range []string{"", "x", "-1", "99999999999999999999999"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := open(t, dir).Keep(newSA(t, "a"), key); err == nil {
			t.Errorf("%q is taken for a number", text)
		}
	}
}
