package mirror

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/warproute/warproute/fib"
)

// decision is what becomes of packets to an address, as Verify compares it.
type decision struct {
	kind fib.Kind
	ways map[string]float64 // of KindForward: how many of a hundred flows take each, by its wayOf
	mtu  uint16             // the route's own; 0: none
}

// share makes a decision to forward by ways that have these weights.
func share(weights map[string]float64, mtu uint16) decision {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	d := decision{fib.KindForward, map[string]float64{}, mtu}
	for way, w := range weights {
		d.ways[way] = 100 * w / total
	}
	return d
}

// slack is by how much the flows that take a way may be off its weight, in percent: a group
// has fib.Buckets of them to give away, and those of dead paths it gives away a second time.
const slack = 100 * 2.5 / fib.Buckets

// as tells whether engines that decide so do what Linux says. A way with less than slack may
// have no flows at all.
func (d decision) as(linux decision) bool {
	if d.kind != linux.kind || d.mtu != linux.mtu {
		return false
	}
	for way := range d.ways {
		if _, is := linux.ways[way]; !is {
			return false
		}
	}
	for way, want := range linux.ways {
		if math.Abs(d.ways[way]-want) > slack {
			return false
		}
	}
	return true
}

func (d decision) String() string {
	if d.kind != fib.KindForward {
		return d.kind.String()
	}
	var ways []string
	for _, way := range slices.Sorted(maps.Keys(d.ways)) {
		if len(d.ways) > 1 {
			way += fmt.Sprintf(", %.1f %%", d.ways[way])
		}
		ways = append(ways, way)
	}
	if d.mtu != 0 {
		return fmt.Sprintf("forward %s, mtu %d", strings.Join(ways, "; "), d.mtu)
	}
	return "forward " + strings.Join(ways, "; ")
}
