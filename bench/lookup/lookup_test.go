package lookup

import (
	"context"
	"errors"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/routes"
	"github.com/warproute/warproute/lookup"
)

func options(t *testing.T, f routes.Family) Options {
	t.Helper()
	set, err := routes.New("internet", f, 2000, 1)
	require.NoError(t, err)
	return Options{
		Routes: set, Destinations: []string{"table", "uniform"}, Batches: []int{64, 7}, Addresses: step,
		Rounds: 1, Duration: 2 * time.Millisecond, Peers: []string{"bart"}, Seed: 1,
	}
}

func TestRunVerifiesAndMeasuresEveryTable(t *testing.T) {
	for _, f := range []routes.Family{routes.IPv4, routes.IPv6} {
		o := options(t, f)
		r, err := Run(context.Background(), o)
		require.NoError(t, err)
		if least := 2*step + 3*2000; r.Verified < least {
			t.Errorf("%v: %d addresses verified, want at least %d", f, r.Verified, least)
		}
		if len(r.Tables) < 2 || len(r.Rates) < 2*2*2 {
			t.Fatalf("%v: %d tables and %d rates, want the router's and bart's, for 2 kinds of destinations and 2 batches", f, len(r.Tables), len(r.Rates))
		}
		for _, rate := range r.Rates {
			if len(rate.Rounds) != o.Rounds || rate.Median() <= 0 {
				t.Errorf("%v: %+v", f, rate)
			}
		}
		for _, table := range r.Tables {
			u := table.Updates
			if u == nil {
				if table.Bytes == 0 || table.Load <= 0 || f != routes.IPv6 {
					t.Errorf("%v: %+v", f, table)
				}
				continue
			}
			if table.Bytes == 0 || table.Load <= 0 || u.Insert.P50 <= 0 || u.Delete.Max < u.Delete.P99 || u.Replace.P99 < u.Replace.P50 || u.Alone <= 0 {
				t.Errorf("%v: %+v, updates %+v", f, table, u)
			}
		}
	}
}

// wrong is a table that returns the same next hop for every address.
type wrong struct{ bartTable[uint32] }

func (*wrong) LookupBatch(dst []lookup.NextHopID, src []uint32) {
	for i := range src {
		dst[i] = 4095
	}
}

func TestRunRejectsWrongResults(t *testing.T) {
	f := ipv4Family()
	f.locals = []local[uint32]{{name: "wrong", new: func() table[uint32] { return &wrong{bartTable[uint32]{addr: netip4}} }}}
	_, err := run(context.Background(), options(t, routes.IPv4), f)
	if err == nil || !strings.Contains(err.Error(), "verify wrong: batches of 64") {
		t.Errorf("a table with wrong results: %v", err)
	}
}

func TestRunMeasuresEachContender(t *testing.T) {
	f := ipv4Family()
	f.locals = []local[uint32]{{name: "one kernel", kernels: []string{"fast", "slow"}, new: func() table[uint32] { return &bartTable[uint32]{addr: netip4} }}}
	_, err := run(context.Background(), options(t, routes.IPv4), f)
	if err == nil || !strings.Contains(err.Error(), "has only one kernel") {
		t.Errorf("two kernels of a table with one: %v", err)
	}
	var used []string
	f.locals[0].new = func() table[uint32] { return &twoKernels{bartTable[uint32]{addr: netip4}, &used} }
	r, err := run(context.Background(), options(t, routes.IPv4), f)
	require.NoError(t, err)
	if r.Rates[0].Contender != "one kernel fast" || r.Rates[1].Contender != "one kernel slow" || !slices.Contains(used, "slow") {
		t.Errorf("%s, %s; used %v", r.Rates[0].Contender, r.Rates[1].Contender, used)
	}
}

type twoKernels struct {
	bartTable[uint32]
	used *[]string
}

func (t *twoKernels) Use(name string) error { *t.used = append(*t.used, name); return nil }

func TestRatioIsMedianOfRoundsAgainstFastestDPDKKernel(t *testing.T) {
	r := &Report{Rates: []*Rate{
		{Contender: "warproute", Destinations: "table", Batch: 64, Rounds: []float64{100, 200, 300}},
		{Contender: "scalar", Destinations: "table", Batch: 64, Rounds: []float64{50, 50, 50}, DPDK: true},
		{Contender: "avx512", Destinations: "table", Batch: 64, Rounds: []float64{40, 80, 240}, DPDK: true},
		{Contender: "avx512", Destinations: "table", Batch: 32, Rounds: []float64{400}, DPDK: true},
		{Contender: "warproute", Destinations: "uniform", Batch: 64, Rounds: []float64{1}},
	}}
	if got := r.Ratio(r.Rates[0]); got != 2.5 {
		t.Errorf("ratio %v, want 2.5", got)
	}
	if got := r.Ratio(r.Rates[4]); got != 0 {
		t.Errorf("ratio %v without DPDK, want 0", got)
	}
}

func TestRunRejectsInvalidOptions(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"no IPv4 routes":         func(o *Options) { o.Routes = &routes.Set{Family: routes.IPv4} },
		"the minimum is 65536":   func(o *Options) { o.Addresses = 100 },
		"1 to 4096 are possible": func(o *Options) { o.Batches = []int{MaxBatch + 1} },
		"in 0 rounds":            func(o *Options) { o.Rounds = 0 },
		"rounds of 0s":           func(o *Options) { o.Duration = 0 },
		"the peers are":          func(o *Options) { o.Peers = []string{"vpp"} },
		"uniform, table, zipf":   func(o *Options) { o.Destinations = []string{"near"} },
	} {
		o := options(t, routes.IPv4)
		change(&o)
		if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestRunStopsWhenContextIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, options(t, routes.IPv4)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
}

// Run verifies and measures DPDK if it is installed, and reports the missing package
// otherwise.
func TestDPDKIsMeasuredOrReportedAbsent(t *testing.T) {
	installed := exec.Command("pkg-config", "--exists", "libdpdk").Run() == nil
	if _, err := exec.LookPath("cc"); err != nil {
		installed = false
	}
	t.Logf("DPDK is installed: %v", installed)
	defer func(real func(int) (func(), error)) { reserve = real }(reserve)
	for i, f := range []routes.Family{routes.IPv4, routes.IPv6, routes.IPv4} {
		if i == 2 {
			reserve = func(int) (func(), error) { return nil, errors.New("no huge pages") }
		}
		o := options(t, f)
		o.Peers = []string{"dpdk"}
		r, err := Run(context.Background(), o)
		require.NoError(t, err)
		if !installed {
			if len(r.Absent) != 1 || !strings.Contains(r.Absent[0].Reason, "apt-get install") {
				t.Errorf("absent: %+v", r.Absent)
			}
			continue
		}
		var variants int
		for _, rate := range r.Rates {
			if rate.DPDK {
				variants++
			}
		}
		if last := r.Tables[len(r.Tables)-1]; variants == 0 || last.Bytes == 0 || last.Load <= 0 || last.Updates.Alone <= 0 {
			t.Errorf("%v: %d rates of DPDK, %+v, absent %+v", f, variants, last, r.Absent)
		}
	}
}

func TestDPDKTbl8CountsCoverRoutes(t *testing.T) {
	parse := func(f routes.Family, list ...string) *routes.Set {
		var prefixes []netip.Prefix
		for _, s := range list {
			prefixes = append(prefixes, netip.MustParsePrefix(s))
		}
		return routes.FromPrefixes(f, "test", "", prefixes, 1)
	}
	if n := fibTbl8s(parse(routes.IPv4, "10.0.0.0/24", "10.0.1.0/25", "10.0.1.128/32", "10.0.2.0/32")); n != 256+2 {
		t.Errorf("IPv4: %d tbl8 groups, want 2 and 256 in reserve", n)
	}
	if n := fib6Tbl8s(parse(routes.IPv6, "2001::/24", "2001::/25", "2001:db8::/48", "2001:db8::1/128")); n != (256+1+3+13)*5/4 {
		t.Errorf("IPv6: %d tbl8 groups, want 17 and 256, and a quarter in reserve", n)
	}
}
