package sequences

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
)

func limited(c *ipsec.Config) {
	c.Clock = new(ipsec.Clock)
	c.Lifetime.Hard = ipsec.Limits{Packets: 10, Bytes: 1000, Age: time.Hour}
}

// live starts an SA with limits as a router does.
func live(t *testing.T, s *Store, alter ...func(*ipsec.Config)) *ipsec.SA {
	t.Helper()
	sa := newSA(t, "a", append([]func(*ipsec.Config){limited}, alter...)...)
	require.NoError(t, s.Live(Association{sa, testKey}))
	return sa
}

// use sends packets of n bytes in all, and returns the number of accepted ones.
func use(sa *ipsec.SA, packets, bytes uint64) (passed int) {
	for i := range packets {
		n := bytes / packets
		if i == 0 {
			n += bytes % packets
		}
		if sa.Count(0, 1, n) {
			passed++
		}
	}
	return passed
}

func TestLifetimesContinue(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if use(live(t, s), 4, 100) != 4 {
		t.Fatal("a new association has no packets left")
	}
	require.NoError(t, s.Close())

	s = open(t, dir)
	sa := live(t, s)
	use(sa, 3, 600)
	require.NoError(t, s.Note())
	use(sa, 1, 1) // which is forgotten
	die(t, s)

	s = open(t, dir)
	defer s.Close()
	before := live(t, s)
	use(before, 1, 100)
	sa = live(t, s) // in its place, as when the configuration is read again
	if n := use(sa, 5, 5); n != 2 || !sa.HardExpired() {
		t.Errorf("%d packets pass of the 2 that are left", n)
	}
	for name, alter := range map[string]func(*ipsec.Config){
		"another SPI":         func(c *ipsec.Config) { c.SPI++ },
		"the other direction": func(c *ipsec.Config) { c.Direction, c.ReplayWindow = ipsec.In, 64 },
	} {
		if n := use(live(t, s, alter), 10, 10); n != 10 {
			t.Errorf("%s: %d packets pass of 10", name, n)
		}
	}
	more := live(t, s, func(c *ipsec.Config) { c.Lifetime.Hard.Packets = 12 })
	if n := use(more, 5, 5); n != 2 {
		t.Errorf("%d packets pass of the 2 by which the limit is higher", n)
	}
}

// The replacement of an SA counts the use of the old one until that has ended.
func TestLifetimesContinueWithoutAGap(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	old := live(t, s)
	use(old, 2, 20)
	abandoned := live(t, s)
	use(old, 1, 10)
	require.NoError(t, s.Release(abandoned))
	replacement := live(t, s)
	use(old, 3, 30)
	use(replacement, 1, 10)
	require.NoError(t, s.Release(old))
	require.NoError(t, s.Note())
	die(t, s)
	s = open(t, dir)
	for name, sa := range map[string]*ipsec.SA{"the replacement": replacement, "after a restart": live(t, s)} {
		if n := use(sa, 5, 5); n != 3 || !sa.HardExpired() {
			t.Errorf("%s: %d packets pass of the 3 that are left", name, n)
		}
	}
	die(t, s)
}

// setDay sets the host's time of day relative to the start of the test.
func setDay(t *testing.T, ahead time.Duration) {
	t.Cleanup(func() { timeOfDay = time.Now })
	timeOfDay = func() time.Time { return time.Now().Add(ahead) }
}

func TestAgesContinue(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	again := func(day time.Duration) {
		t.Helper()
		require.NoError(t, s.Close())
		setDay(t, day)
		s = open(t, dir)
	}
	old := func(what string, want bool) {
		t.Helper()
		if live(t, s).HardExpired() != want {
			t.Errorf("%s: it is too old: %v", what, !want)
		}
	}
	old("new", false)
	again(time.Hour - time.Minute)
	old("of 59 minutes", false)
	again(time.Hour)
	old("of an hour", true)
	if live(t, s, func(c *ipsec.Config) { c.Lifetime.Hard.Age *= 2 }).HardExpired() {
		t.Error("one that may last two hours is too old after one")
	}
	again(-time.Hour)
	old("after the time of day was set back", true)
	require.NoError(t, s.Close())
}

// The host's time of day counts only between routers: somebody may set it while one runs.
func TestSettingTheTimeOfDayAgesNothing(t *testing.T) {
	const year = 365 * 24 * time.Hour
	dir := t.TempDir()
	s := open(t, dir)
	live(t, s)
	for name, day := range map[string]time.Duration{"ahead": year, "back": -year} {
		setDay(t, day)
		if live(t, s).HardExpired() { // as when the configuration is read again
			t.Errorf("%s: a new association is too old", name)
		}
		require.NoError(t, s.Note())
		die(t, s)
		s = open(t, dir)
		if live(t, s).HardExpired() {
			t.Errorf("%s: a new association is too old after a restart", name)
		}
	}
	die(t, s)
}

// SAs without limits need no file, and a damaged file is not taken for an empty one.
func TestUnreadableLifetimesAreRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	live(t, s, func(c *ipsec.Config) { c.Lifetime = ipsec.Lifetime{} })
	if n := len(s.lifetimes.last); n != 0 {
		t.Errorf("%d notes of an association without limits", n)
	}
	live(t, s)
	require.NoError(t, s.Close())
	path := filepath.Join(dir, "lifetimes")
	require.NoError(t, os.Truncate(path, 40))
	if _, err := Open(dir); err == nil {
		t.Fatal("a damaged file is taken")
	}
	require.NoError(t, os.Remove(path))
	if err := open(t, dir).Close(); err != nil { // the directory was given up
		t.Fatal(err)
	}
}
