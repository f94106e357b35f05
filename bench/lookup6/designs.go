package lookup6

import (
	"iter"
	"net/netip"

	"github.com/warproute/warproute/lookup"
)

// Routes are IPv6 prefixes without host bits, each once and in any order, with
// next hops from 1 to lookup.MaxNextHop.
type Routes = iter.Seq2[netip.Prefix, lookup.NextHop]

// Table is a built design. Any number of goroutines may use it.
type Table interface {
	// LookupBatch answers src[i] in dst[i], lookup.Miss where no prefix covers it.
	// Addresses are in network byte order; dst is at least as long as src. It
	// allocates nothing.
	LookupBatch(dst []lookup.NextHop, src [][16]byte)
	// Bytes is the size of all that a lookup may read.
	Bytes() int
}

// Design is one way to build a table.
type Design struct {
	Name  string
	Paper string
	Build func(Routes) Table
}

// Designs are those of this package that this machine can run.
var Designs = append([]Design{
	{"poptrie", poptriePaper, func(r Routes) Table { return NewPoptrie(r) }},
	{"lengths", lengthsPaper, func(r Routes) Table { return NewLengths(r) }},
	{"ranges", rangesPaper, func(r Routes) Table { return NewRanges(r) }},
	{"planb", planbPaper, func(r Routes) Table { return NewPlanB(r) }},
}, vectorDesigns()...)

// lanes is how many addresses are walked side by side: a usual batch, of which
// the state still fits the first-level cache.
const lanes = 64
