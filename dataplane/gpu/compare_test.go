package gpu

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
)

// insert adds a route with a next hop of its own.
func insert(t *testing.T, base *fib.FIB, p netip.Prefix) fib.NextHopID {
	t.Helper()
	id := got(base.NewNextHop(fib.KindBlackhole))(t)
	table := base.IPv6.Insert
	if p.Addr().Is4() {
		table = base.IPv4.Insert
	}
	require.NoError(t, table(p, id))
	return id
}

// nestedPrefix returns a prefix of few addresses, within others.
func nestedPrefix(rnd *rand.Rand) netip.Prefix {
	var a [16]byte
	for i := range a {
		a[i] = byte(rnd.IntN(3)) << 6
	}
	if rnd.IntN(2) == 0 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte(a[:])), rnd.IntN(33)).Masked()
	}
	return netip.PrefixFrom(netip.AddrFrom16(a), rnd.IntN(129)).Masked()
}

// TestCompareFindsEqualCopies changes routes at random.
func TestCompareFindsEqualCopies(t *testing.T) {
	f, library := newFake(t)
	f.copies = 1
	base, rnd := newBase(t), rand.New(rand.NewPCG(1, 1))
	s := openFakes(t, f, base, Options{Library: library})
	var addrs []netip.Addr
	for range 100 {
		p := nestedPrefix(rnd)
		insert(t, base, p)
		addrs = append(addrs, p.Addr(), nestedPrefix(rnd).Addr())
		if rnd.IntN(4) == 0 {
			gone := addrs[rnd.IntN(len(addrs))]
			base.IPv4.Delete(netip.PrefixFrom(gone, 24).Masked())
			base.IPv6.Delete(netip.PrefixFrom(gone, 48).Masked())
		}
		base.Commit()
	}
	for _, a := range append(addrs, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("255.255.255.255")) {
		require.NoError(t, s.Compare(t.Context(), 0, a))
	}
}

func TestCompareWaitsForQueuedPatches(t *testing.T) {
	f, library := newFake(t)
	f.copies = 1
	base := newBase(t)
	s := openFakes(t, f, base, Options{Library: library})
	insert(t, base, netip.MustParsePrefix("10.0.0.0/8")) // and it is not flushed
	compared := make(chan error)
	go func() { compared <- s.Compare(t.Context(), 0, netip.MustParseAddr("10.1.2.3")) }()
	select {
	case err := <-compared:
		t.Fatalf("before the devices have the change: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	base.Commit()
	if err := <-compared; err != nil {
		t.Error(err)
	}
}

// TestCompareReportsDifferences covers a device with another route, and one without a context.
func TestCompareReportsDifferences(t *testing.T) {
	f, library := newFake(t)
	f.copies = 1
	base := newBase(t)
	s := openFakes(t, f, base, Options{Library: library})
	addr := netip.MustParseAddr("10.1.2.3")
	insert(t, base, netip.MustParsePrefix("10.0.0.0/8"))
	id := insert(t, base, netip.MustParsePrefix("10.1.0.0/16"))
	base.Commit()
	tables := s.All[1].tables
	tables.patcher.drain()
	image := onDevice[uint32](onDevice[cuda.DevicePtr](tables.images[0].pointerAt, 1)[0], 1<<24)
	hops := onDevice[uint64](tables.arrays[fib.NextHops].at, int(id)+1)
	for _, c := range []struct {
		name             string
		corrupt, restore func()
		there, here      string
	}{
		{"a word of the table", func() { image[10<<16|1<<8|2] = image[10<<16] }, func() { image[10<<16|1<<8|2] = image[10<<16|1<<8] },
			"GPU 1: route for 10.1.2.3: GPU a /8 with next hop 2 (blackhole, ", "host a /16 with next hop 3 (blackhole, "},
		{"a next hop", func() { hops[id]++ }, func() { hops[id]-- },
			"GPU 1: route for 10.1.2.3: GPU a /16 with next hop 3 (", "host a /16 with next hop 3 (blackhole, "},
	} {
		c.corrupt()
		if err := s.Compare(t.Context(), 0, addr); err == nil || !strings.HasPrefix(err.Error(), c.there) || !strings.Contains(err.Error(), c.here) {
			t.Errorf("%s: %v, want %s and %s", c.name, err, c.there, c.here)
		}
		c.restore()
		if err := s.Compare(t.Context(), 0, addr); err != nil {
			t.Errorf("%s, restored: %v", c.name, err)
		}
	}
	f.failNext("cuMemcpyDtoH_v2")
	if err := s.Compare(t.Context(), 0, addr); !errors.Is(err, cuda.OutOfMemory) || !strings.HasPrefix(err.Error(), "GPU 0: read 4 bytes of device memory: ") {
		t.Errorf("a call that fails: %v", err)
	}
	s.All[1].state.fail(errors.New("out of order"))
	if err := s.Compare(t.Context(), 0, addr); err == nil || err.Error() != "GPU 1: out of order" {
		t.Errorf("a device that failed: %v", err)
	}
}
