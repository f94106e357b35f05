package sequences

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
)

func inbound(c *ipsec.Config) { c.Direction, c.ReplayWindow = ipsec.In, 64 }

// receiver starts an inbound SA as a router does.
func receiver(t *testing.T, s *Store, alter ...func(*ipsec.Config)) *ipsec.SA {
	t.Helper()
	sa := newSA(t, "in", append([]func(*ipsec.Config){inbound}, alter...)...)
	s.Receive(Association{sa, testKey})
	return sa
}

// A restarted router refuses all packets that it accepted before, and accepts all new ones from the
// next number on.
func TestNoPacketIsReceivedTwice(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	sa := receiver(t, s)
	for _, n := range []uint64{1, 2, 3, 1000} {
		if !sa.Accept(n) {
			t.Fatalf("number %d is refused", n)
		}
	}
	require.NoError(t, s.Close())

	s = open(t, dir)
	sa = receiver(t, s, func(c *ipsec.Config) { c.ReplayWindow = 4096 })
	for _, n := range []uint64{1, 3, 999, 1000} {
		if sa.Accept(n) {
			t.Errorf("number %d is accepted again", n)
		}
	}
	if !sa.Accept(1001) || !sa.Accept(1<<20) {
		t.Error("new numbers are refused")
	}
	require.NoError(t, s.Note())
	sa.Accept(1<<20 + 1)
	die(t, s)

	s = open(t, dir)
	sa = receiver(t, s)
	if sa.Accept(1 << 20) {
		t.Error("after a crash, what was noted is accepted again")
	}
	if !sa.Accept(1<<20 + 2) {
		t.Error("after a crash, the next packet is refused")
	}
	die(t, s)
}

// SAs with another SPI, or without a replay window, start from 0.
func TestOnlyTheSameSAContinues(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	receiver(t, s).Accept(1000)
	require.NoError(t, s.Close())
	s = open(t, dir)
	for name, alter := range map[string]func(*ipsec.Config){
		"another SPI": func(c *ipsec.Config) { c.SPI++ },
		"no window":   func(c *ipsec.Config) { c.ReplayWindow = 0 },
	} {
		if !receiver(t, s, alter).Accept(1) {
			t.Errorf("%s: number 1 is refused", name)
		}
	}
}

// An SA and its replacement share a record, whose number never decreases.
func TestHigherOfTwoNumbersIsStored(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	old := receiver(t, s)
	old.Accept(1000)
	successor := receiver(t, s)
	successor.Skip(old.Sequence())
	successor.Accept(2000)
	require.NoError(t, s.Note())
	require.NoError(t, s.Release(old))
	die(t, s)
	s = open(t, dir)
	if receiver(t, s).Accept(2000) {
		t.Error("the number of the old association counts")
	}
}

// Note writes changes only.
func TestNoteWritesWhatChanged(t *testing.T) {
	s := open(t, t.TempDir())
	sa := receiver(t, s)
	sa.Accept(1)
	require.NoError(t, s.Note())
	begun := s.received.syncs
	readOnly, err := os.Open(s.received.path) // writes fail from here on
	require.NoError(t, err)
	s.received.file.Close()
	s.received.file = readOnly
	if err := s.Note(); err != nil {
		t.Errorf("without anything new: %v", err)
	}
	sa.Accept(2)
	if err := s.Note(); err == nil {
		t.Error("a number that could not be noted is no error")
	}
	if n := s.received.syncs - begun; n != 0 {
		t.Errorf("%d waits for the disk", n)
	}
}

// Received numbers and used lifetimes are stored independently of each other's failures.
func TestNoteStoresOneFileIfTheOtherFails(t *testing.T) {
	for _, bad := range []string{"received", "lifetimes"} {
		dir := t.TempDir()
		s := open(t, dir)
		in, limited := receiver(t, s), live(t, s)
		in.Accept(1)
		require.NoError(t, s.Note())
		if err := os.Remove(filepath.Join(dir, bad)); err != nil { // so that it must be created again
			t.Fatal(err)
		}
		require.NoError(t, os.MkdirAll(filepath.Join(dir, bad+".new", "x"), 0o700))
		in.Accept(1000)
		use(limited, 4, 100)
		if err := s.Note(); err == nil || !strings.Contains(err.Error(), bad+".new: is a directory") {
			t.Errorf("%s: %v", bad, err)
		}
		die(t, s)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, bad+".new")))
		empty, err := openTable(filepath.Join(dir, bad)) // without it, the directory is refused
		if err == nil {
			err = empty.close()
		}
		require.NoError(t, err)
		s = open(t, dir)
		if bad != "received" && receiver(t, s).Accept(1000) {
			t.Error("what was received is not noted where lifetimes cannot be")
		}
		if bad != "lifetimes" && use(live(t, s), 10, 10) != 6 {
			t.Error("lifetimes are not noted where what was received cannot be")
		}
		die(t, s)
	}
}

// Note syncs the file every syncEvery.
func TestNotesAreSynced(t *testing.T) {
	s := open(t, t.TempDir())
	in, limited := receiver(t, s), live(t, s)
	for name, table := range map[string]*table{"received": s.received, "lifetimes": s.lifetimes} {
		for range 2 { // once makes a file that the disk has
			in.Accept(in.Sequence() + 1)
			use(limited, 1, 1)
			require.NoError(t, s.Note())
		}
		for _, test := range []struct{ ago, want int }{{0, 0}, {1, 1}, {0, 0}} {
			begun := table.syncs
			table.synced = table.synced.Add(-time.Duration(test.ago) * syncEvery)
			require.NoError(t, s.Note())
			if n := table.syncs - begun; n != test.want {
				t.Errorf("%s: %d waits for the disk, want %d", name, n, test.want)
			}
		}
	}
	require.NoError(t, s.Close())
}
