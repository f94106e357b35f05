package ipv6

import (
	"sync/atomic"

	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

// LookupVRFs stores the next hop of src[i] in the VRF vrfs[i] in dst[i], for VRFs below trie.NumVRFIDs and except 0. It
// panics if vrfs or dst is shorter than src, and allocates nothing.
func (t *Table) LookupVRFs(dst []lookup.NextHopID, vrfs []uint16, src [][16]byte) {
	trie.InVRFs(t.Image(), dst, vrfs, src, vrfKernel)
}

func walkVRFs(image []uint32, dst []lookup.NextHopID, vrfs []uint16, src [][16]byte) {
	var words [trie.VRFBlock]uint32
	for i, v := range vrfs {
		words[i%trie.VRFBlock] = atomic.LoadUint32(&image[trie.VRFs+uint32(v)])
	}
	for level := range 16 {
		references := uint32(0)
		for i := range src {
			if word := words[i%trie.VRFBlock]; word&trie.Reference != 0 {
				word = atomic.LoadUint32(&image[word&^trie.Reference+uint32(src[i][level])])
				words[i%trie.VRFBlock] = word
				references |= word
			}
		}
		if references&trie.Reference == 0 {
			break
		}
	}
	for i := range dst {
		dst[i] = lookup.NextHopID(words[i%trie.VRFBlock]) & lookup.MaxNextHopID
	}
}
