package sequences

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
)

// A file that is empty or missing beside its siblings was lost: it is refused, and not created again.
func TestLostFilesAreRefused(t *testing.T) {
	for _, name := range tables {
		for what, lose := range map[string]func(path string) error{
			"missing": os.Remove,
			"empty":   func(path string) error { return os.Truncate(path, 0) },
			"zeros":   func(path string) error { return os.WriteFile(path, make([]byte, 4*recordSize), 0o600) },
		} {
			dir := t.TempDir()
			s := open(t, dir)
			start(t, s, "a")
			receiver(t, s).Accept(5)
			live(t, s)
			require.NoError(t, s.Close())
			path := filepath.Join(dir, name)
			require.NoError(t, lose(path))
			for range 2 { // the first must leave no trace
				s, err := Open(dir)
				if err == nil {
					die(t, s)
					t.Fatalf("%s is %s: nobody notices", name, what)
				}
				for _, want := range []string{path + " is damaged: it is ", "give all associations new keys and remove the directory " + dir} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%s is %s: %v, want %q in it", name, what, err, want)
					}
				}
			}
		}
	}
}

// A router that crashed while it created the directory leaves some of the files, without records.
func TestIncompleteDirectoriesAreCompleted(t *testing.T) {
	for _, missing := range tables {
		dir := t.TempDir()
		die(t, open(t, dir))
		require.NoError(t, os.Remove(filepath.Join(dir, missing)))
		if _, first := start(t, open(t, dir), "a"); first != 1 {
			t.Errorf("without %s: begins with %d", missing, first)
		}
	}
}

func TestVolatileFilesystemsAreNamed(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "warproute-test-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	if fs := open(t, dir).Volatile(); fs != "tmpfs" {
		t.Errorf("%s is on %q", dir, fs)
	}
	for magic, want := range map[uint32]string{0x794c7630: "overlayfs", 0x858458f6: "ramfs", 0xef53: "", 0x58465342: ""} {
		if got := volatile(magic); got != want {
			t.Errorf("%#x: %q, want %q", magic, got, want)
		}
	}
}

// Known bases are far apart, in any order; one that is drawn while the router runs is stored within a
// tick.
func TestBasesAreStored(t *testing.T) {
	dir := t.TempDir()
	var bases []uint64
	run := func(renew bool) {
		s := open(t, dir)
		n := &ipsec.Nonces{}
		require.NoError(t, s.Begin(n))
		bases = append(bases, n.Base())
		if renew {
			bases = append(bases, n.Renew())
			require.NoError(t, s.Extend())
		}
		die(t, s)
	}
	for i := range 4 {
		run(i%2 == 1)
	}
	s := open(t, dir)
	if n, _ := s.used.number(nonceBaseCount); n != uint64(len(bases)) {
		t.Errorf("%d bases are noted, of %d", n, len(bases))
	}
	for i, base := range bases {
		if noted, _ := s.used.number(nonceBaseID(uint64(i))); noted != base {
			t.Errorf("base %d is noted as %#x, want %#x", i, noted, base)
		}
	}
	if _, first := start(t, s, "a"); first != 1 {
		t.Errorf("bases count as sequence numbers: the first is %d", first)
	}
}

// The directory does not grow with every start.
func TestOldBasesAreForgotten(t *testing.T) {
	s := open(t, t.TempDir())
	n := &ipsec.Nonces{}
	require.NoError(t, s.used.note(map[id]uint64{nonceBaseCount: maxNonceBases - 1}, true))
	require.NoError(t, s.Begin(n))
	for range 2 { // in the places of the first ones
		n.Renew()
		require.NoError(t, s.Extend())
	}
	if drawn, _ := s.used.number(nonceBaseCount); drawn != maxNonceBases+2 || len(s.used.at) != 1+3 {
		t.Errorf("%d bases were drawn, and there are %d records", drawn, len(s.used.at))
	}
	if base, _ := s.used.number(nonceBaseID(1)); base != n.Base() {
		t.Errorf("the last base is %#x, and in its place is %#x", n.Base(), base)
	}
}
