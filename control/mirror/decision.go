package mirror

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/warproute/warproute/fib"
)

// decision is the result of a lookup, as Verify compares it.
type decision struct {
	kind  fib.Kind
	paths map[string]float64 // for KindForward: percent of the flows, by pathName; for KindNoPort: by tunnelName
	mtu   uint16             // of the route; 0: none
}

// share returns a decision to forward over paths with these weights.
func share(weights map[string]float64, mtu uint16) decision {
	return shareOf(fib.KindForward, weights, mtu)
}

func shareOf(kind fib.Kind, weights map[string]float64, mtu uint16) decision {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	d := decision{kind, map[string]float64{}, mtu}
	for path, w := range weights {
		d.paths[path] = 100 * w / total
	}
	return d
}

// slack is the tolerance of a path's share, in percent: a group divides fib.Buckets buckets,
// and redistributes those of dead paths.
const slack = 100 * 2.5 / fib.Buckets

// matches reports whether two decisions agree. A path with a share below slack may have no
// flows.
func (d decision) matches(linux decision) bool {
	if d.kind != linux.kind || d.mtu != linux.mtu {
		return false
	}
	for path := range d.paths {
		if _, ok := linux.paths[path]; !ok {
			return false
		}
	}
	for path, want := range linux.paths {
		if math.Abs(d.paths[path]-want) > slack {
			return false
		}
	}
	return true
}

func (d decision) String() string {
	if len(d.paths) == 0 {
		return d.kind.String()
	}
	var texts []string
	for _, text := range slices.Sorted(maps.Keys(d.paths)) {
		if len(d.paths) > 1 {
			text += fmt.Sprintf(", %.1f %%", d.paths[text])
		}
		texts = append(texts, text)
	}
	if d.mtu != 0 {
		return fmt.Sprintf("%v %s, mtu %d", d.kind, strings.Join(texts, "; "), d.mtu)
	}
	return fmt.Sprintf("%v %s", d.kind, strings.Join(texts, "; "))
}
