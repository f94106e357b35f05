package policy

import (
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// For every pair of addresses the cache answers as a lookup does that hides protocol and ports, also when
// the table is replaced and when there are more pairs than entries.
func TestPlainCacheAgreesWithTable(t *testing.T) {
	c := new(PlainCache)
	worlds := maps.Clone(kinds)
	worlds["random"] = func(w *world, n int, _ bool) *world { return w.random(n) }
	for name, kind := range worlds {
		for _, ipv6 := range []bool{false, true} {
			w := kind(newWorld(7), 300, ipv6)
			table, err := Build(policies(w.rules))
			require.NoError(t, err)
			c.Use(table)
			plain, n := 0, 0
			for range 2 {
				for i := range 20_000 {
					r := w.rules[i%len(w.rules)]
					p := packet{w.inside(r.src), w.inside(w.rules[w.IntN(len(w.rules))].dst), 6, 1, 2}
					if i%3 == 0 {
						p.dst = w.inside(r.dst)
					}
					if p.src.Is4() != p.dst.Is4() {
						continue
					}
					want, got := plainByTable(table, p), false
					if p.src.Is4() {
						got = isPlainPair(c, p)
					} else {
						src, dst := p.src.As16(), p.dst.As16()
						got = c.LookupIPv6(&src, &dst)
					}
					if got != want {
						t.Fatalf("%s: %v to %v: plain %v, the table says %v", name, p.src, p.dst, got, want)
					}
					n++
					if got {
						plain++
					}
				}
			}
			t.Logf("%s, IPv6 %v: %d of %d pairs are plain", name, ipv6, plain, n)
		}
	}
}

// isPlainPair looks the addresses of an IPv4 packet up in the cache.
func isPlainPair(c *PlainCache, p packet) bool {
	src, dst := p.src.As4(), p.dst.As4()
	return c.LookupIPv4([]uint64{uint64(binary.BigEndian.Uint32(src[:]))<<32 | uint64(binary.BigEndian.Uint32(dst[:]))}) != 0
}

// plainByTable looks a pair of addresses up without the cache: with every protocol and port of a policy
// hidden.
func plainByTable(table *Table, p packet) bool {
	p.protocol, p.sport, p.dport = HiddenProtocol, int(HiddenPort), int(HiddenPort)
	f := flowOf(p)
	f.sport, f.dport = HiddenPort, HiddenPort
	n, v := table.Lookup(&f)
	return n == None || v.Action() == Bypass
}

// A pair is not plain if any packet between its addresses is protected.
func TestPlainPairsHaveNoProtectedPacket(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	w := newWorld(9).overlapping(200, false)
	for i := range w.rules {
		if i%2 == 0 {
			w.rules[i].action = Protect
		}
	}
	table, err := Build(policies(w.rules))
	require.NoError(t, err)
	c := new(PlainCache)
	c.Use(table)
	protected := 0
	for range 50_000 {
		r := w.rules[rnd.IntN(len(w.rules))]
		p := packet{w.inside(r.src), w.inside(r.dst), w.protocol(), w.port(anyPort), w.port(anyPort)}
		f := flowOf(p)
		n, v := table.Lookup(&f)
		if n == None || v.Action() != Protect {
			continue
		}
		protected++
		if isPlainPair(c, p) {
			t.Fatalf("%+v is protected, and its addresses are plain", p)
		}
	}
	if protected < 1000 {
		t.Errorf("only %d of 50,000 packets are protected", protected)
	}
}

// The answers about a batch are those about its pairs one by one.
func TestPlainCacheBatches(t *testing.T) {
	w := newWorld(3).tunnels(50, false)
	table, err := Build(policies(w.rules))
	require.NoError(t, err)
	batches, single := new(PlainCache), new(PlainCache)
	batches.Use(table)
	single.Use(table)
	for range 2000 {
		pairs := make([]uint64, 1+w.IntN(64))
		for i := range pairs {
			r, other := w.rules[w.IntN(2)], w.rules[w.IntN(3)]
			src, dst := w.inside(r.src).As4(), w.inside(other.dst).As4()
			pairs[i] = uint64(binary.BigEndian.Uint32(src[:]))<<32 | uint64(binary.BigEndian.Uint32(dst[:]))
		}
		plain := batches.LookupIPv4(pairs)
		for i := range pairs {
			if got, want := plain>>i&1, single.LookupIPv4(pairs[i:i+1])&1; got != want {
				t.Fatalf("pair %d of %d, %#x: %d in the batch, %d alone", i, len(pairs), pairs[i], got, want)
			}
		}
	}
}

func TestPlainCacheWithoutPolicies(t *testing.T) {
	table, err := Build(nil)
	require.NoError(t, err)
	c := new(PlainCache)
	c.Use(table)
	if c.LookupIPv4([]uint64{1, 2 << 32})&3 != 3 || !c.LookupIPv6(&[16]byte{1}, &[16]byte{2}) {
		t.Error("packets without policies are not plain")
	}
}

func TestPlainCacheDoesNotAllocate(t *testing.T) {
	table, err := Build(policies(newWorld(1).tunnels(100, false).rules))
	require.NoError(t, err)
	c := new(PlainCache)
	c.Use(table)
	i := uint64(0)
	if n := testing.AllocsPerRun(100, func() {
		i++
		c.LookupIPv4([]uint64{i << 40, 0x0a000000_14000000 + i<<8})
		c.LookupIPv6(&[16]byte{byte(i)}, &[16]byte{1: byte(i)})
	}); n != 0 {
		t.Errorf("a lookup allocates %v times", n)
	}
}
