package trie_test

import (
	"fmt"
	"net/netip"

	"github.com/warproute/warproute/lookup/trie"
)

// A copy of a table follows every change of it.
func Example() {
	table := trie.New(32)
	var image words
	end := table.Follow(&image)
	defer end()
	if err := table.Insert(netip.MustParsePrefix("198.51.100.0/25"), 7); err != nil {
		panic(err)
	}

	prefix, hop, _ := table.LookupPrefix(netip.MustParseAddr("198.51.100.1"))
	fmt.Println("table:", prefix, "next hop", hop)

	bits, hop, err := trie.WalkCopy(0, netip.MustParseAddr("198.51.100.1"), func(i uint32) (uint32, error) { return image[i], nil })
	fmt.Println("copy: length", bits, "next hop", hop, err)
	// Output:
	// table: 198.51.100.0/25 next hop 7
	// copy: length 25 next hop 7 <nil>
}

// words is a copy in memory. A copy on a device transfers the words there.
type words []uint32

func (w *words) Replace(all []uint32) { *w = append((*w)[:0], all...) }

func (w *words) Patch(p trie.Patch) {
	if missing := int(p.At+p.Count) - len(*w); missing > 0 {
		*w = append(*w, make([]uint32, missing)...)
	}
	for i := range p.Count {
		(*w)[p.At+i] = p.Word
	}
}
