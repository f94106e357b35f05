package lookup6

import (
	"testing"

	"github.com/warproute/warproute/internal/routes"
	"github.com/warproute/warproute/lookup"
)

// BenchmarkLookup reports the time of one lookup in batches of 64, on the real table.
func BenchmarkLookup(b *testing.B) {
	const batch, different = 64, 1 << 20
	set, err := routes.New("real", routes.IPv6, 0, 1)
	if err != nil {
		b.Fatal(err)
	}
	src := map[string][][16]byte{}
	for _, kind := range routes.Destinations {
		for _, a := range draw(b, set, kind, different) {
			src[kind] = append(src[kind], a.As16())
		}
	}
	for _, d := range Designs {
		table := d.Build(set.All())
		for _, kind := range routes.Destinations {
			b.Run(d.Name+"/"+kind, func(b *testing.B) {
				addrs := src[kind]
				dst := make([]lookup.NextHop, batch)
				lookups := 0
				for b.Loop() {
					from := lookups % different
					table.LookupBatch(dst, addrs[from:from+batch])
					lookups += batch
				}
				b.ReportMetric(float64(lookups)/b.Elapsed().Seconds()/1e6, "Mlookups/s")
				b.ReportMetric(float64(table.Bytes())/float64(set.Len()), "bytes/route")
			})
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	set, err := routes.New("real", routes.IPv6, 0, 1)
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range Designs {
		b.Run(d.Name, func(b *testing.B) {
			for b.Loop() {
				d.Build(set.All())
			}
		})
	}
}
