package trie

import (
	"sync/atomic"
	"unsafe"
)

// direct is the address of a table's image for kernels that load it themselves, at offset 0 of
// the table: one load instead of three, before the first gather of a batch.
//
// A kernel in assembly reads the address after its start and has no safepoint, so the garbage
// collector cannot complete a cycle during a batch. The writer stores the address before the
// table's reference to the image: an address that a kernel read is that of an image which the
// table still references, and which stays mapped until the batch ends.
type direct struct {
	first   atomic.Pointer[uint32] // first word; nil without routes, or if not enabled
	enabled bool                   // LookupBatch calls the kernel directly
}

// The assembly expects the address at offset 0 of a Batched.
const (
	_ = -unsafe.Offsetof(Batched[uint32]{}.Table)
	_ = -unsafe.Offsetof(Table{}.direct)
	_ = -unsafe.Offsetof(direct{}.first)
)

// set stores the address of an image, nil for none.
func (d *direct) set(im *Image) {
	if im == nil || !d.enabled {
		d.first.Store(nil)
		return
	}
	d.first.Store(unsafe.SliceData(im.words))
}

// Direct reports whether LookupBatch has the address of an image for a kernel in assembly: the
// table ever had a route, and uses AVX-512.
func (t *Table) Direct() bool { return t.direct.first.Load() != nil }
