package gpu

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

// sameTables checks that a device's images are those of the FIB, which does not change meanwhile.
func sameTables(t *testing.T, d *Device, base *fib.FIB) {
	t.Helper()
	d.tables.patcher.drain()
	for i, view := range []func(func([]uint32) error) error{base.IPv4.View, base.IPv6.View} {
		_ = view(func(words []uint32) error {
			im := &d.tables.images[i]
			buffer := onDevice[cuda.DevicePtr](im.pointerAt, 1)[0]
			if buffer != im.buffers[im.active].at {
				t.Fatalf("the %s table is at %#x, want %#x", im.family, buffer, im.buffers[im.active].at)
			}
			device := bytesOf(onDevice[uint32](buffer, max(len(words), trie.FirstNode)))
			host := bytesOf(words)
			const at = 4 * trie.Generation // devices have the generation instead
			if len(words) > 0 && (!bytes.Equal(device[:at], host[:at]) || !bytes.Equal(device[at+4:len(host)], host[at+4:])) {
				t.Fatalf("the %s table differs from the FIB's", im.family)
			}
			return nil
		})
	}
}

// changeRoutes inserts and deletes a number of random routes, and sometimes replaces a table.
func changeRoutes(t *testing.T, base *fib.FIB, rnd *rand.Rand, n int, id fib.NextHopID) {
	for range n {
		var a [16]byte
		for i := range a {
			a[i] = byte(rnd.IntN(4))
		}
		p4 := netip.PrefixFrom(netip.AddrFrom4([4]byte(a[:])), 8+rnd.IntN(25)).Masked()
		p6 := netip.PrefixFrom(netip.AddrFrom16(a), 8+rnd.IntN(121)).Masked()
		switch rnd.IntN(4) {
		case 0:
			base.IPv4.Delete(p4)
		case 1:
			base.IPv6.Delete(p6)
		default:
			require.NoError(t, errors.Join(base.IPv4.Insert(p4, id), base.IPv6.Insert(p6, id)))
		}
		if rnd.IntN(n) == 0 {
			require.NoError(t, base.IPv4.Load(func(yield func(netip.Prefix, lookup.NextHopID) bool) { yield(p4, id) }))
		}
	}
	base.Commit()
}

// TestReleasedTablesAreRestored: with the changes before, while and after they are released, and those
// that run at the same time.
func TestReleasedTablesAreRestored(t *testing.T) {
	f, library := newFake(t)
	f.copies = 1
	base := newBase(t)
	d := openFakes(t, f, base, Options{Library: library, GPUs: 1}).All[0]
	held := f.held
	rnd := rand.New(rand.NewPCG(17, 7))
	id := got(base.NewNextHop(fib.KindBlackhole))(t)
	for round := range 10 {
		concurrent := round%2 == 1
		changed := make(chan struct{})
		change := func() {
			defer close(changed)
			changeRoutes(t, base, rand.New(rand.NewPCG(17, uint64(round))), 300, id)
		}
		changeRoutes(t, base, rnd, 100, id)
		if concurrent {
			go change()
			time.Sleep(time.Duration(rnd.IntN(1000)) * time.Microsecond)
		}
		require.NoError(t, d.releaseTables())
		if f.held != held-4 {
			t.Fatalf("%d resources are held, %d before the release", f.held, held)
		}
		if err := d.compare(t.Context(), 0, netip.MustParseAddr("192.0.2.1")); !errors.Is(err, errReleased) {
			t.Fatalf("compare with released tables: %v", err)
		}
		if !concurrent {
			change()
		}
		require.NoError(t, d.restoreTables())
		<-changed
		if f.held != held {
			t.Fatalf("%d resources are held, %d before the release", f.held, held)
		}
		sameTables(t, d, base)
		require.NoError(t, d.compare(t.Context(), 0, netip.MustParseAddr("192.0.2.1")))
	}
}

// TestTablesStayReleasedWithoutMemory: when another process has taken it, until it returns.
func TestTablesStayReleasedWithoutMemory(t *testing.T) {
	f, library := newFake(t)
	f.copies = 1
	base := newBase(t)
	d := openFakes(t, f, base, Options{Library: library, GPUs: 1}).All[0]
	require.NoError(t, d.releaseTables())
	held := f.held
	for range 2 {
		f.failNext("cuMemAlloc_v2")
		if err := d.restoreTables(); !errors.Is(err, cuda.OutOfMemory) || d.state.err() != nil || f.held != held {
			t.Fatalf("without memory: %v, the device %v, %d resources, want %d", err, d.state.err(), f.held, held)
		}
	}
	require.NoError(t, d.restoreTables())
	sameTables(t, d, base)
}

// TestParkedKernelReleasesItsMemory: and has the tables again before it runs. While another process has the
// memory, the CPU continues.
func TestParkedKernelReleasesItsMemory(t *testing.T) {
	r := newKernelRig(t, 1, Options{Park: 20 * time.Millisecond, ReleaseMemory: true, Timeout: time.Minute})
	f, e, c := r.fake, r.engines[0], batch.NewChunks(1, maxChunk)[0]
	until := func(what string, done func() bool) {
		t.Helper()
		for start := time.Now(); !done(); time.Sleep(time.Millisecond) {
			if time.Since(start) > 10*time.Second {
				t.Fatalf("%s: %+v", what, r.State())
			}
		}
	}
	used := func() bool { return execute(t, e, c) == "gpu" }
	held := func() int32 { return atomic.LoadInt32(&f.held) }
	before := held()
	until("the kernel that never ran does not release its tables", func() bool { return held() == before-4 })
	for round := range 3 {
		until("the kernel does not run", used)
		if held() != before {
			t.Fatalf("%d resources are held by a running kernel, want %d", held(), before)
		}
		until("the kernel does not release its tables", func() bool { return held() == before-4 })
		if s := r.State(); !s.Parked || s.WakeErr != nil {
			t.Errorf("round %d: released: %+v", round, s)
		}
	}
	f.failNext("cuMemAlloc_v2")
	until("the kernel does not ask for memory", func() bool {
		if by := execute(t, e, c); by != "cpu" {
			t.Fatalf("without memory: executed by %s", by)
		}
		return r.State().WakeErr != nil
	})
	if s := r.State(); !s.Parked || s.Failed || !errors.Is(s.WakeErr, cuda.OutOfMemory) || held() != before-4 {
		t.Errorf("without memory: %+v, %d resources, want %d", s, held(), before-4)
	}
	until("the kernel does not return", used)
	if s := r.State(); s.WakeErr != nil || s.Outage != nil || held() != before {
		t.Errorf("with memory again: %+v", s)
	}
}
