package lookup

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/warproute/warproute/internal/oracle"
	"github.com/warproute/warproute/lookup"
)

// addr is a table's address type: IPv4 in host byte order, IPv6 in network byte order.
type addr interface{ uint32 | [16]byte }

// family is the description of an address family.
type family[A addr] struct {
	bytes   int // address length
	from    func(netip.Addr) A
	netip   func(A) netip.Addr
	encode  func([]byte, A) []byte // appends an address in the peer's format
	locals  []local[A]
	program peerProgram
}

// bench is a running measurement.
type bench[A addr] struct {
	Options
	family           family[A]
	core, readerCore int
	addrs            [][]A              // per kind of destinations
	queries          []A                // addresses for verification
	want             []lookup.NextHopID // next hops of queries, from the oracle
	order            []uint32           // route indexes in the order of updates
}

// defaultBytes is the default size of the addresses of one kind.
const defaultBytes = 64 << 20

// verified is the number of verified destinations of each kind.
const verified = 1 << 20

// prepare generates destinations, queries, and the expected next hops.
func (b *bench[A]) prepare() error {
	n := b.Addresses
	if n == 0 {
		n = defaultBytes / b.family.bytes
	}
	for a := range b.Routes.Edges() {
		b.queries = append(b.queries, b.family.from(a))
	}
	for i, kind := range b.Destinations {
		seq, err := b.Routes.Destinations(kind, b.Seed+uint64(i))
		if err != nil {
			return err
		}
		addrs := make([]A, 0, n)
		for a := range seq {
			addrs = append(addrs, b.family.from(a))
			if len(addrs) == n {
				break
			}
		}
		b.addrs = append(b.addrs, addrs)
		b.queries = append(b.queries, addrs[:min(n, verified)]...)
	}
	truth := oracle.NewRanges(b.Routes.All())
	b.want = make([]lookup.NextHopID, len(b.queries))
	for i, q := range b.queries {
		b.want[i], _ = truth.Lookup(b.family.netip(q)) // lookup.Miss is the zero value
	}
	b.order = make([]uint32, b.Routes.Len())
	for i := range b.order {
		b.order[i] = uint32(i)
	}
	rand.New(rand.NewPCG(b.Seed, 0)).Shuffle(len(b.order), func(i, j int) { b.order[i], b.order[j] = b.order[j], b.order[i] })
	return nil
}

// check compares a contender's next hops for all queries with the oracle's.
func (b *bench[A]) check(got []lookup.NextHopID) error {
	if len(got) != len(b.want) {
		return fmt.Errorf("%d results for %d queries", len(got), len(b.want))
	}
	for i, want := range b.want {
		if got[i] != want {
			return fmt.Errorf("%v has next hop %d, want %d", b.family.netip(b.queries[i]), got[i], want)
		}
	}
	return nil
}

// contenders fills and verifies all tables. absent lists peers that cannot run on this
// host; a wrong result is an error. The caller closes all contenders, also after an error.
func (b *bench[A]) contenders(ctx context.Context) (all []*contender, absent []Absent, err error) {
	for _, l := range b.family.locals {
		if l.peer != "" && !slices.Contains(b.Peers, l.peer) {
			continue
		}
		if ctx.Err() != nil {
			return all, absent, fmt.Errorf("measure lookups: %w", context.Cause(ctx))
		}
		c, err := b.newLocal(l)
		if err != nil {
			return all, absent, fmt.Errorf("%s: %w", l.name, err)
		}
		all = append(all, c)
		if err := c.verify(); err != nil {
			return all, absent, fmt.Errorf("verify %s: %w", l.name, err)
		}
	}
	if slices.Contains(b.Peers, "dpdk") {
		c, missing, err := b.newDPDK()
		if err != nil {
			return all, []Absent{{b.family.program.name, err.Error()}}, nil
		}
		all, absent = append(all, c), missing
		if err := c.verify(); err != nil {
			return all, absent, fmt.Errorf("verify %s: %w", b.family.program.name, err)
		}
	}
	return all, absent, nil
}

func encode4(to []byte, a uint32) []byte   { return binary.NativeEndian.AppendUint32(to, a) }
func encode6(to []byte, a [16]byte) []byte { return append(to, a[:]...) }

func from4(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func netip4(a uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, a)))
}
