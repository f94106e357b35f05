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

// addr is an address as tables take it: IPv4 in host byte order, IPv6 in
// network byte order.
type addr interface{ uint32 | [16]byte }

// family is what differs between the two.
type family[A addr] struct {
	bytes   int // of an address
	from    func(netip.Addr) A
	netip   func(A) netip.Addr
	encode  func([]byte, A) []byte // appends it as the DPDK peer reads it
	locals  []local[A]
	program peerProgram
}

// bench is a measurement while it runs.
type bench[A addr] struct {
	Options
	family           family[A]
	core, readerCore int
	addrs            [][]A            // a slice per kind of destinations
	questions        []A              // for verification
	answers          []lookup.NextHop // what the oracle says to them
	order            []uint32         // numbers of routes: in what order they are updated
}

// defaultBytes is the memory of the addresses of one kind.
const defaultBytes = 64 << 20

// verified is how many destinations of each kind are verified.
const verified = 1 << 20

// prepare draws the destinations and asks the oracle.
func (b *bench[A]) prepare() error {
	n := b.Addresses
	if n == 0 {
		n = defaultBytes / b.family.bytes
	}
	for a := range b.Routes.Edges() {
		b.questions = append(b.questions, b.family.from(a))
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
		b.questions = append(b.questions, addrs[:min(n, verified)]...)
	}
	truth := oracle.NewRanges(b.Routes.All())
	b.answers = make([]lookup.NextHop, len(b.questions))
	for i, q := range b.questions {
		b.answers[i], _ = truth.Lookup(b.family.netip(q)) // 0 if there is none, which is lookup.Miss
	}
	b.order = make([]uint32, b.Routes.Len())
	for i := range b.order {
		b.order[i] = uint32(i)
	}
	rand.New(rand.NewPCG(b.Seed, 0)).Shuffle(len(b.order), func(i, j int) { b.order[i], b.order[j] = b.order[j], b.order[i] })
	return nil
}

// check compares what a contender answered to the questions with the truth.
func (b *bench[A]) check(got []lookup.NextHop) error {
	if len(got) != len(b.answers) {
		return fmt.Errorf("%d answers to %d questions", len(got), len(b.answers))
	}
	for i, want := range b.answers {
		if got[i] != want {
			return fmt.Errorf("%v has next hop %d, want %d", b.family.netip(b.questions[i]), got[i], want)
		}
	}
	return nil
}

// contenders fills and verifies everyone's tables. A peer that cannot run here is
// among the absent; one that answers wrongly, or a table of ours, is an error.
// What it returns is to be closed in any case.
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
		c, lacks, err := b.newDPDK()
		if err != nil {
			return all, []Absent{{b.family.program.name, err.Error()}}, nil
		}
		all, absent = append(all, c), lacks
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
