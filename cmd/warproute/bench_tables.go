package main

import (
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/control/routefile"
	"github.com/warproute/warproute/internal/routes"
)

// benchTables are the flags that say which tables are measured.
type benchTables struct {
	family, table string
	routes        int
}

func (b *benchTables) addFlags(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&b.family, "family", "both", "4, 6 or both")
	flags.StringVar(&b.table, "table", "real", "real, internet, nested, adversarial, dense or a `file`")
	flags.IntVar(&b.routes, "routes", 0, "in a synthetic table; 0 is as many as the real one has")
}

// each measures the table of each family, and returns the reports.
func (b *benchTables) each(seed uint64, measure func(*routes.Set) (any, error)) (reports []any, err error) {
	families, ok := map[string][]routes.Family{"both": {routes.IPv4, routes.IPv6}, "4": {routes.IPv4}, "6": {routes.IPv6}}[b.family]
	if !ok {
		return nil, usageError(fmt.Errorf("--family %s: it is 4, 6 or both", b.family))
	}
	for _, f := range families {
		set, err := tableFor(b.table, f, b.routes, seed)
		if err != nil {
			return nil, usageError(err)
		}
		if set.Len() == 0 && len(families) > 1 {
			continue // a file of one family
		}
		r, err := measure(set)
		if err != nil {
			return nil, err
		}
		reports = append(reports, r)
	}
	if len(reports) == 0 {
		return nil, usageError(fmt.Errorf("--table %s: there is no route in it", b.table))
	}
	return reports, nil
}

// tableFor makes the table of a name, or reads the file of that name.
func tableFor(name string, f routes.Family, n int, seed uint64) (*routes.Set, error) {
	if slices.Contains(routes.Names(), name) {
		return routes.New(name, f, n, seed)
	}
	if _, err := os.Stat(name); err != nil {
		return nil, fmt.Errorf("--table %s: it is one of %v, or a file: %w", name, routes.Names(), err)
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
