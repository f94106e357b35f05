package fragment

import (
	"bytes"
	"testing"
	"time"
)

// Expected datagrams outlive any number of others, also of their own source; where all are
// expected, the oldest makes room.
func TestUnexpectedDatagramsAreEvictedFirst(t *testing.T) {
	eachFamily(t, func(t *testing.T, fam family) {
		data := pattern(32)
		r := NewReassembler(Limits{Datagrams: 16, PerSource: 4, Timeout: time.Hour})
		expected := Origin{Expected: true}
		for i := range 3 {
			if _, err := r.AddFrom(0, fam.from(fam.part(7, 16, false, data[16:]), i), Origin{}); err != nil {
				t.Fatal(err)
			}
			r.AddFrom(0, fam.from(fam.part(7, 0, true, data[:8]), i), expected) // the first one says so
		}
		for i := range 1000 {
			r.Add(0, fam.from(fam.part(1, 8, true, data[8:16]), 100+i))
			r.Add(0, fam.from(fam.part(uint16(100+i), 8, true, data[8:16]), i%3)) // in the name of the same sources
		}
		if r.Waiting() != 16 {
			t.Errorf("%d datagrams wait, want 16", r.Waiting())
		}
		for i := range 3 {
			if got, err := r.Add(0, fam.from(fam.part(7, 8, true, data[8:16]), i)); !bytes.HasSuffix(got, data) {
				t.Errorf("datagram %d made room: %v", i, err)
			}
		}
		for i := range 20 {
			r.AddFrom(0, fam.from(fam.part(9, 0, true, data[:16]), i), expected)
		}
		for i := range 20 {
			got, _ := r.AddFrom(0, fam.from(fam.part(9, 16, false, data[16:]), 19-i), expected)
			if (got != nil) != (i < 16) {
				t.Errorf("expected datagram %d of 20 became whole: %v", 20-i, got != nil)
			}
		}
	})
}

// What came by different ways does not become one packet.
func TestDomainsDoNotMix(t *testing.T) {
	eachFamily(t, func(t *testing.T, fam family) {
		data := pattern(32)
		r := NewReassembler(Limits{})
		first, last := fam.part(1, 0, true, data[:16]), fam.part(1, 16, false, data[16:])
		r.AddFrom(0, first, Origin{Domain: 1})
		if got, err := r.AddFrom(0, last, Origin{}); got != nil || err != nil {
			t.Fatalf("fragments of two domains became a packet: %v", err)
		}
		if got, _ := r.AddFrom(0, last, Origin{Domain: 1}); !bytes.HasSuffix(got, data) {
			t.Error("fragments of a domain did not")
		}
	})
}
