package sequences

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// twoKeys makes a directory with stored numbers of testKey and another key, left by a crash, and
// returns the file's content.
func twoKeys(t *testing.T) (dir, path string, content []byte) {
	t.Helper()
	dir = t.TempDir()
	s := open(t, dir)
	start(t, s, "a")
	require.NoError(t, s.Keep(Association{newSA(t, "b"), []byte("another")}))
	die(t, s)
	path = filepath.Join(dir, "used")
	content, err := os.ReadFile(path)
	if err != nil || len(content) != 3*recordSize {
		t.Fatalf("%d bytes, %v", len(content), err)
	}
	return dir, path, content
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, content, 0o600))
}

// refused opens a directory that must be refused, with its file unchanged.
func refused(t *testing.T, dir, path string, content []byte, what string, n int) {
	t.Helper()
	write(t, path, content)
	s, err := Open(dir)
	if err == nil {
		t.Errorf("%s %d: nobody notices", what, n)
		die(t, s)
	} else if !strings.Contains(err.Error(), path+" is damaged: ") || !strings.Contains(err.Error(), "give all associations new keys and remove the directory "+dir) {
		t.Errorf("%s %d: %v", what, n, err)
	}
	if left, err := os.ReadFile(path); err != nil || !bytes.Equal(left, content) {
		t.Errorf("%s %d: the file was changed", what, n)
	}
}

// No crash leaves an incomplete or changed file, so such a file is refused: numbers would be used twice.
func TestDamagedFilesAreRefused(t *testing.T) {
	dir, path, good := twoKeys(t)
	for n := range good {
		refused(t, dir, path, good[:n], "cut at", n)
	}
	for n := range 8 * len(good) {
		bad := bytes.Clone(good)
		bad[n/8] ^= 1 << (n % 8)
		refused(t, dir, path, bad, "bit", n)
	}
	for n, more := range [][]byte{{0}, good[:5], make([]byte, recordSize), good[recordSize:][:recordSize]} {
		refused(t, dir, path, append(bytes.Clone(good), more...), "something behind it,", n)
	}
	refused(t, dir, path, append(good[:2*recordSize:2*recordSize], good[recordSize:][:recordSize]...), "a key twice", 2)
	write(t, path, good)
	if _, first := start(t, open(t, dir), "a"); first != ahead+1 {
		t.Errorf("whole, it goes on with %d", first)
	}
}

// A file of an older release, without the number of its records, is read. Records that a crash left
// incomplete were not in use.
func TestFilesOfOldReleasesWithoutACountAreRead(t *testing.T) {
	dir, path, content := twoKeys(t)
	former := content[recordSize:]
	for _, tail := range []int{0, 7, recordSize, 3*recordSize + 1} {
		write(t, path, append(bytes.Clone(former), make([]byte, tail)...))
		s := open(t, dir)
		if _, first := start(t, s, "a"); first != ahead+1 {
			t.Errorf("with %d zeros behind it goes on with %d", tail, first)
		}
		die(t, s)
		if now, err := os.ReadFile(path); err != nil || len(now) != len(content) || !bytes.HasPrefix(now, counts[:]) {
			t.Errorf("it is not of today: %x, %v", now, err)
		}
	}
	for n := range 8 * len(former) {
		bad := bytes.Clone(former)
		bad[n/8] ^= 1 << (n % 8)
		refused(t, dir, path, bad, "bit", n)
	}
	for n := 1; n < recordSize; n++ {
		refused(t, dir, path, former[:recordSize+n], "cut at", n)
	}
}

// A crash at any moment while keys are added keeps the earlier keys and their numbers.
func TestACrashWhileKeysAreAdded(t *testing.T) {
	dir, path, before := twoKeys(t)
	for n := range len(before) { // the next file, as far as it got
		write(t, path, before)
		write(t, path+".new", bytes.Repeat([]byte{0xff}, n))
		s := open(t, dir)
		if _, err := os.Stat(path + ".new"); !os.IsNotExist(err) {
			t.Errorf("it is still there: %v", err)
		}
		if _, first := start(t, s, "a"); first != ahead+1 {
			t.Errorf("%d bytes: it goes on with %d", n, first)
		}
		die(t, s)
	}
}

// If a key cannot be added, the others continue, and none of its numbers is used.
func TestFailedAdditionsChangeNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	old, _ := start(t, s, "a")
	inTheWay := filepath.Join(dir, "used.new", "x")
	require.NoError(t, os.MkdirAll(inTheWay, 0o700))
	other := newSA(t, "b")
	if err := s.Keep(Association{other, []byte("another")}); err == nil {
		t.Error("it is no error")
	}
	old.Reserve(ahead * 3 / 4)
	if err := s.Extend(); err != nil {
		t.Errorf("those of before: %v", err)
	}
	if _, n := old.Reserve(ahead / 2); n != ahead/2 {
		t.Errorf("%d numbers are left", n)
	}
	require.NoError(t, os.RemoveAll(filepath.Dir(inTheWay)))
	if err := s.Keep(Association{other, []byte("another")}); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, first := start(t, open(t, dir), "a"); first <= ahead {
		t.Errorf("it goes on with %d", first)
	}
}

// Numbers that are stored together, adjacent in the file or not, are written in place.
func TestNumbersAreWrittenInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "numbers")
	tab, err := openTable(path)
	require.NoError(t, err)
	rnd := rand.New(rand.NewPCG(5, 5))
	want := map[id]uint64{}
	for n := range 64 {
		want[id{byte(n)}] = uint64(n)
	}
	require.NoError(t, tab.note(want, false))
	for range 100 {
		some := map[id]uint64{}
		for range rnd.IntN(100) {
			some[id{byte(rnd.IntN(64))}] = rnd.Uint64()
		}
		maps.Copy(want, some)
		require.NoError(t, tab.note(some, false))
	}
	if !maps.Equal(tab.last, want) {
		t.Error("the table has other numbers")
	}
	require.NoError(t, tab.close())
	tab, err = openTable(path)
	require.NoError(t, err)
	if !maps.Equal(tab.last, want) {
		t.Error("the file has other numbers")
	}
	require.NoError(t, tab.close())
}
