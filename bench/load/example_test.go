package load_test

import (
	"fmt"
	"log"
	"time"

	"github.com/warproute/warproute/bench/load"
)

// The search finds the rate of a device that forwards 10 Mpps and loses the rest.
func ExampleSearch() {
	device := func(rate float64, d time.Duration) (*load.Trial, error) {
		t := &load.Trial{Rate: rate, Seconds: d.Seconds(), Offered: uint64(rate * d.Seconds())}
		t.Delivered = min(t.Offered, uint64(10e6*d.Seconds()))
		t.Lost = t.Offered - t.Delivered
		return t, nil
	}
	s := load.Search{Test: device, Trial: time.Second, Resolution: 0.001, Confirm: 2, Max: 100e6}
	ndr, err := s.Find(0, 12e6)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("NDR %.1f Mpps, limited by the %s\n", ndr.Rate/1e6, ndr.Limit)
	// Output: NDR 10.0 Mpps, limited by the router
}
