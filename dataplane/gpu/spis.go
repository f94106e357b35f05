package gpu

import (
	"sync"

	"github.com/warproute/warproute/cuda"
)

// spiTable is a device's index of inbound SAs by SPI: an open-addressing hash table with linear probing, as
// find_sa.h says. A word has the SPI in its upper half, and the index of the keys in its lower one. Words change one at
// a time while packets are looked up.
type spiTable struct {
	mu    sync.Mutex
	words []uint64 // the host's copy
	at    cuda.DevicePtr
	store func(slot uint32, word uint64)
	flush func()
}

const (
	spiSlots   = 2 * maxKeys // at most half are in use, so searches are short
	spiShift   = 32 - 16     // spiSlots is 1 << 16
	spiHash    = 0x9e3779b1  // 2^32 over the golden ratio: spreads consecutive SPIs
	spiRemoved = 1           // the word of a removed SA: searches continue behind it. No packet has SPI 0.
)

var _ = [1]struct{}{}[spiSlots>>(32-spiShift)-1]

// newSPITable returns an empty table. The context must be current.
func (d *Device) newSPITable() (*spiTable, error) {
	memory, err := d.alloc(8 * spiSlots)
	if err != nil {
		return nil, err
	}
	t := &spiTable{words: make([]uint64, spiSlots), at: memory.Ptr(), flush: func() { d.tables.patcher.flush() }}
	t.store = func(slot uint32, word uint64) {
		d.tables.patcher.add(patch{At: t.at.Add(int(8 * slot)), Word: word, Count: 1, Bytes: 8})
	}
	return t, memory.Write(0, bytesOf(t.words))
}

// AddSPI implements gateway.Device. SAs without keys on the device are not added.
func (t *spiTable) AddSPI(spi, index uint32) {
	if index >= maxKeys {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	slot := spi * spiHash >> spiShift
	for ; t.words[slot] > spiRemoved; slot = (slot + 1) % spiSlots {
	}
	t.set(slot, uint64(spi)<<32|uint64(index))
	t.flush()
}

// RemoveSPI implements gateway.Device.
func (t *spiTable) RemoveSPI(spi, index uint32) {
	if index >= maxKeys {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	slot := spi * spiHash >> spiShift
	for t.words[slot] != uint64(spi)<<32|uint64(index) {
		if t.words[slot] == 0 {
			return
		}
		slot = (slot + 1) % spiSlots
	}
	word := uint64(spiRemoved)
	if t.words[(slot+1)%spiSlots] == 0 { // searches end here, and at removed words in front of it
		word = 0
	}
	t.set(slot, word)
	for word == 0 {
		if slot = (slot + spiSlots - 1) % spiSlots; t.words[slot] != spiRemoved {
			break
		}
		t.set(slot, 0)
	}
	t.flush()
}

func (t *spiTable) set(slot uint32, word uint64) {
	t.words[slot] = word
	t.store(slot, word)
}
