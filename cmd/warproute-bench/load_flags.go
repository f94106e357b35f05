package main

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	bench "github.com/warproute/warproute/bench/ipsec"
	"github.com/warproute/warproute/bench/load"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/internal/cli"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/suite"
	"github.com/warproute/warproute/packet"
)

// addFlags adds the flags of load.
func (f *loadFlags) addFlags(c *cobra.Command) {
	f.subjectFlags.addFlags(c, time.Second)
	f.addSizeFlags(c, "64", "")
	addLanesFlag(c, &f.testbed.Lanes, testbed.DefaultLanes)
	fl := c.Flags()
	fl.StringSliceVar(&f.rates, "rate", nil, "packets per second to offer, such as 200k,1.5M (default: search)")
	fl.StringSliceVar(&f.shares, "loads", []string{"10", "30", "50", "70", "90", "100"}, "loads to measure in `PERCENT` of NDR")
	fl.DurationVar(&f.searchTime, "search-time", 20*time.Second, "end the search for NDR and PDR after this `TIME`, with the precision so far; 0 means no limit")
	fl.Float64Var(&f.resolution, "resolution", 0.5, "relative width in `PERCENT` at which the search ends")
	fl.IntVar(&f.confirm, "confirm", 2, "number of trials that must confirm NDR and PDR")
	fl.StringVar(&f.max, "max-rate", "0", "highest packets per second to offer in the search; 0 means the generator's maximum")
	f.out.AddFlags(c)
}

// addSizeFlags adds the flags of engine, packet size, suite and arrival.
func (f *subjectFlags) addSizeFlags(c *cobra.Command, size, suite string) {
	fl := c.Flags()
	fl.StringVar(&f.engine, "engine", "cpu", "`ENGINE`: auto, cpu or gpu")
	fl.StringVar(&f.size, "size", size, "IP packet size in `BYTES`, of inner packets with IPsec, or imix (64, 576 and 1408, 7:4:1)")
	fl.StringVar(&f.suite, "suite", suite, "measure an IPsec gateway with this cipher suite `NAME`")
	fl.StringVar(&f.arrival, "arrival", "constant", "`ARRIVAL` of packets: constant, poisson or burst:N")
	cli.CompleteValues(c, "engine", "auto", "cpu", "gpu")
	cli.CompleteValues(c, "suite", suiteNames()...)
	cli.CompleteValues(c, "arrival", "constant", "poisson", "burst:32")
	cli.CompleteValues(c, "size", "64", "512", "1408", "imix")
}

// addFlags adds the flags of all open loads.
func (f *subjectFlags) addFlags(c *cobra.Command, trial time.Duration) {
	addFamilyFlag(c, &f.family, "4")
	addTableFlags(c, &f.table, &f.routes, &f.seed)
	addTestbedFlags(c, &f.testbed)
	fl := c.Flags()
	nics := fl.Lookup("nics")
	nics.DefValue, nics.Usage = "1", "cores that emulate NICs, 1 to 2 per worker"
	f.testbed.NICs = 1
	fl.StringVar(&f.direction, "direction", "encrypt", "`DIRECTION` of the gateway: encrypt or decrypt")
	fl.IntVar(&f.sas, "sas", 1000, "number of security associations")
	fl.IntVar(&f.window, "window", 1024, "replay window in packets; 0 means none")
	fl.IntVar(&f.ring, "ring", 256, "`MIB` of packets to decrypt per worker and round")
	f.dmaFlags.addFlags(c)
	fl.DurationVar(&f.trial, "trial", trial, "duration of a trial, without warm-up (a tenth, 30 to 100 ms)")
	cli.CompleteValues(c, "direction", "encrypt", "decrypt")
}

// check checks the flags and sets defaults.
func (f *loadFlags) check(c *cobra.Command) (err error) {
	changed := c.Flags().Changed
	if len(f.rates) > 0 && (changed("loads") || changed("resolution") || changed("confirm") || changed("max-rate") || changed("search-time")) {
		return errors.New("--loads, --search-time, --resolution, --confirm and --max-rate are of the search, which --rate replaces")
	}
	for _, name := range []string{"direction", "sas", "window", "ring", "lanes"} {
		if f.suite == "" && changed(name) {
			return fmt.Errorf("--%s requires --suite", name)
		}
	}
	return cmp.Or(f.checkSize(), f.subjectFlags.check(c), f.checkSearch())
}

// checkSize checks engine, suite and packet size, and sets the engine that auto means.
func (f *subjectFlags) checkSize() (err error) {
	if f.engine != "cpu" && f.engine != "gpu" && f.engine != "auto" {
		return fmt.Errorf("--engine %s: write auto, cpu or gpu", f.engine)
	}
	if f.suite != "" {
		if _, err := suite.ByName(f.suite); err != nil {
			return fmt.Errorf("--suite: %w", err)
		}
	}
	if f.sizes, err = parseSize(f.size); err != nil {
		return err
	}
	if f.family == "6" && f.suite == "" && slices.Min(f.sizes) < packet.IPv6Len {
		return fmt.Errorf("--size %s: at least %d bytes with IPv6", f.size, packet.IPv6Len)
	}
	return nil
}

// check checks the flags of all open loads and sets defaults.
func (f *subjectFlags) check(c *cobra.Command) error {
	ipv6, err := families(f.family)
	if err != nil || len(ipv6) != 1 {
		return fmt.Errorf("--family %s: write 4 or 6", f.family)
	}
	f.ipv6, f.decrypt = ipv6[0], f.direction == "decrypt"
	switch {
	case f.direction != "encrypt" && f.direction != "decrypt":
		return fmt.Errorf("--direction %s: write encrypt or decrypt", f.direction)
	case f.trial <= 0:
		return fmt.Errorf("--trial %v: write a positive duration", f.trial)
	}
	if f.engine == "auto" {
		f.engine = f.testbed.Auto()
	}
	if err := cmp.Or(checkNumbers(number{"nics", f.testbed.NICs, 1, maxNICs * max(1, f.testbed.Workers)}), checkTestbed(c, f.engine, &f.testbed), checkTable(f.table, &f.routes), checkNumbers(
		number{"sas", f.sas, 1, bench.MaxSAs}, number{"ring", f.ring, 1, bench.MaxRing}, number{"window", f.window, 0, ipsec.MaxReplayWindow}), f.dmaFlags.check(c, &f.testbed)); err != nil {
		return err
	}
	if cores := f.testbed.Workers + f.testbed.NICs; cores > runtime.NumCPU() {
		return fmt.Errorf("--workers %d and --nics %d need as many cores; this host has %d", f.testbed.Workers, f.testbed.NICs, runtime.NumCPU())
	}
	return nil
}

// gateway returns the options of an IPsec gateway.
func (f *subjectFlags) gateway() bench.Options {
	o := bench.Options{
		IPv6: f.ipv6, Direction: ipsec.Out, Suite: f.suite, SAs: f.sas, Sizes: f.sizes, Window: f.window, Ring: f.ring,
		Table: f.table, Routes: f.routes, Engine: f.engine, Testbed: f.testbed, Seed: f.seed,
	}
	if f.decrypt {
		o.Direction = ipsec.In
	}
	return o
}

// checkSearch parses the flags of rates and trials.
func (f *loadFlags) checkSearch() (err error) {
	o := load.Options{Trial: f.trial, Resolution: f.resolution / 100, Confirm: f.confirm, SearchTime: f.searchTime}
	switch {
	case f.searchTime < 0:
		return fmt.Errorf("--search-time %v: write a positive duration, or 0 for no limit", f.searchTime)
	case !(f.resolution >= 0.01 && f.resolution <= 50): // also rejects NaN
		return fmt.Errorf("--resolution %v: 0.01 to 50 percent are possible", f.resolution)
	}
	if o.Arrival, err = load.ParseArrival(f.arrival); err != nil {
		return fmt.Errorf("--arrival %w", err)
	}
	if f.max != "0" {
		if o.Max, err = parseLoad("max-rate", f.max); err != nil {
			return err
		}
	}
	for _, text := range f.rates {
		rate, err := parseLoad("rate", text)
		if err != nil {
			return err
		}
		o.Rates = append(o.Rates, rate)
	}
	if o.Shares, err = parseShares("loads", "NDR", f.shares); err != nil {
		return err
	}
	f.options = o
	return cmp.Or(checkNumbers(number{"confirm", f.confirm, 1, 100}), o.Check())
}

// parseLoad parses a rate that can be offered.
func parseLoad(flag, text string) (float64, error) {
	rate, err := parseRate(flag, text)
	if err == nil && !(rate >= 1 && rate <= 1e9) {
		err = fmt.Errorf("--%s %s: 1 to 1G packets per second are possible", flag, text)
	}
	return rate, err
}

// parseShares parses percentages of a rate.
func parseShares(flag, of string, texts []string) (shares []float64, err error) {
	for _, text := range texts {
		percent, err := strconv.ParseFloat(text, 64)
		if err != nil || !(percent >= 0.1 && percent <= 200) {
			return nil, fmt.Errorf("--%s %s: 0.1 to 200 percent of %s are possible", flag, text, of)
		}
		shares = append(shares, percent/100)
	}
	return shares, nil
}
