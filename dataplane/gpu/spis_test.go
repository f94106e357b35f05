package gpu

import (
	"math/rand/v2"
	"testing"
)

// TestSPITableFollowsTheSAs: the device's words find every SA that was added and not removed, also those with the same
// SPI, and every search ends soon.
func TestSPITableFollowsTheSAs(t *testing.T) {
	device := make([]uint64, spiSlots)
	table := &spiTable{words: make([]uint64, spiSlots), flush: func() {}, store: func(slot uint32, word uint64) { device[slot] = word }}
	rnd := rand.New(rand.NewPCG(6, 1))
	find := func(spi, index uint32) (found bool, steps int) {
		for slot := spi * spiHash >> spiShift; device[slot] != 0; slot = (slot + 1) % spiSlots {
			if steps++; device[slot] == uint64(spi)<<32|uint64(index) {
				return true, steps
			}
		}
		return false, steps
	}
	spis, longest := map[uint32]uint32{}, 0 // by index of keys
	check := func(all bool) {
		t.Helper()
		for index, spi := range spis {
			found, steps := find(spi, index)
			if longest = max(longest, steps); !found {
				t.Fatalf("SPI %#x with keys at %d is not found", spi, index)
			}
			if !all {
				return
			}
		}
	}
	for n := range 300_000 { // rekeyings of a table as full as it gets
		index := rnd.Uint32N(maxKeys)
		if spi, used := spis[index]; used {
			table.RemoveSPI(spi, index)
			delete(spis, index)
			if found, _ := find(spi, index); found {
				t.Fatalf("SPI %#x with keys at %d is found after its removal", spi, index)
			}
		}
		spi := 256 + rnd.Uint32N(1<<20)
		table.AddSPI(spi, index)
		spis[index] = spi
		check(n%100_000 == 0)
	}
	check(true)
	if longest > 256 {
		t.Errorf("a search takes %d steps", longest)
	}
	for index, spi := range spis {
		table.RemoveSPI(spi, index)
	}
	for slot, word := range device {
		if word > spiRemoved {
			t.Fatalf("slot %d has %#x after all were removed", slot, word)
		}
	}
	table.AddSPI(256, maxKeys) // keys that are not on the device
	if found, _ := find(256, maxKeys); found {
		t.Error("an SA without keys on the device is found")
	}
}
