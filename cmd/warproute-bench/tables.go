package main

import (
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/control/routefile"
	"github.com/warproute/warproute/internal/cli"
	"github.com/warproute/warproute/internal/routes"
)

// tableFlags are the flags of the measured tables.
type tableFlags struct {
	family, table string
	routes        int
}

func (b *tableFlags) addFlags(c *cobra.Command) {
	addFamilyFlag(c, &b.family, "both")
	c.Flags().StringVar(&b.table, "table", "real", "`TABLE`: real, internet, nested, adversarial, dense, or a file of routes")
	c.Flags().IntVar(&b.routes, "routes", 0, "number of routes of a synthetic table (default: the size of the real one)")
	cli.CompleteValues(c, "table", routes.Names()...)
}

// each calls measure with the table of each family, and returns the reports.
func (b *tableFlags) each(seed uint64, measure func(*routes.Set) (any, error)) (reports []any, err error) {
	all, err := families(b.family)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	for _, ipv6 := range all {
		f := routes.IPv4
		if ipv6 {
			f = routes.IPv6
		}
		set, err := newTable(b.table, f, b.routes, seed)
		if err != nil {
			return nil, cli.UsageError(err)
		}
		if set.Len() == 0 && len(all) > 1 {
			continue // a file of one family
		}
		r, err := measure(set)
		if err != nil {
			return nil, err
		}
		reports = append(reports, r)
	}
	if len(reports) == 0 {
		return nil, cli.UsageError(fmt.Errorf("--table %s: no routes", b.table))
	}
	return reports, nil
}

// newTable generates a table by its name, or reads a file.
func newTable(name string, f routes.Family, n int, seed uint64) (*routes.Set, error) {
	if slices.Contains(routes.Names(), name) {
		return routes.New(name, f, n, seed)
	}
	if _, err := os.Stat(name); err != nil {
		return nil, fmt.Errorf("--table %s: write one of %v, or a file: %w", name, routes.Names(), err)
	}
	lines, err := routefile.Open(name)
	if err != nil {
		return nil, err
	}
	prefixes := make([]netip.Prefix, len(lines))
	for i, l := range lines {
		prefixes[i] = l.Prefix
	}
	return routes.FromPrefixes(f, name, "file", prefixes, seed), nil
}
