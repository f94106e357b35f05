package main

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/bench/forward"
	bench "github.com/warproute/warproute/bench/ipsec"
	"github.com/warproute/warproute/bench/load"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/internal/cli"
	"github.com/warproute/warproute/packet"
)

// subjectFlags are the flags of a router on memory ports that packets are offered to.
type subjectFlags struct {
	engine, family, table  string
	routes                 int
	seed                   uint64
	testbed                testbed.Config
	size, suite, direction string
	sas, window, ring      int
	dmaFlags
	arrival       string
	trial         time.Duration
	out           cli.Results
	ipv6, decrypt bool
	sizes         []int
}

// loadFlags are the flags of load.
type loadFlags struct {
	subjectFlags
	max           string
	rates, shares []string
	searchTime    time.Duration
	resolution    float64
	confirm       int
	options       load.Options
}

func newLoadCommand() *cobra.Command {
	var f loadFlags
	c := &cobra.Command{
		Use:   "load",
		Short: "Measure latency and loss under load on memory ports",
		Long: `Offer packets at given rates to a router on memory ports, whether or not it keeps up, and
measure latency and loss. Cores emulate the NICs: a packet that finds the receive ring, or the
queue of its lane, full is lost. Latency counts from the scheduled arrival at one NIC to the departure at the other,
so a late generator hides nothing.

Without --rate, it searches the no drop rate (NDR) and the partial drop rate (PDR, 0.5 %
loss) by binary search as RFC 2544, confirms them by repeated trials, and then measures
shares of NDR. With --suite the router is an IPsec gateway with the default lanes.

Every packet of a first run is verified as by forward and ipsec. With --dma none packets are
in memory before they arrive, and each is used once: a trial consists of rounds, between
which frames are written again.

  warproute-bench load
  warproute-bench load --rate 1M,5M --arrival poisson
  warproute-bench load --suite aes128gcm16 --size 1408 --sas 1 --dma none --output load.json
  warproute-bench report load.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	f.addFlags(c)
	return c
}

func (f *loadFlags) run(c *cobra.Command) (err error) {
	if err := f.check(c); err != nil {
		return cli.UsageError(err)
	}
	progress, end, err := f.begin(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	subject, result, err := f.subject()
	if err != nil {
		return err
	}
	if subject.Meter, err = testbed.NewMeter(f.testbed, ""); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, subject.Meter.Close()) }()
	r, err := load.Run(f.options, subject.Tester(f.options.Arrival, f.seed), progress.Step)
	if err != nil {
		return err
	}
	progress.Done()
	r.Unmeasured = append(r.Unmeasured, subject.Meter.Missing...)
	result.Summary, result.Result, result.Prepared = subject.Summary, *r, subject.Prepared
	writeLoad(f.out.Text(c), result)
	return f.out.Write(c, []*testbed.LoadResult{result})
}

// subject verifies the router and returns it, with a result that has its parameters.
func (f *loadFlags) subject() (*testbed.Subject, *testbed.LoadResult, error) {
	res := &testbed.LoadResult{Sizes: f.sizes, DMA: f.dma}
	if f.suite == "" {
		o := forward.Options{IPv6: f.ipv6, Engine: f.engine, Table: f.table, Routes: f.routes, Testbed: f.testbed, Seed: f.seed}
		for _, n := range f.sizes {
			o.Sizes = append(o.Sizes, packet.EthernetLen+n)
		}
		s, err := forward.Load(o)
		return s, res, err
	}
	res.Suite, res.Direction, res.SAs = f.suite, f.direction, f.sas
	s, window, err := bench.Load(f.gateway())
	res.Window = window
	return s, res, err
}

// begin begins a measurement by verifying the router. The caller calls end.
func (f *subjectFlags) begin(c *cobra.Command) (progress *cli.Progress, end func() error, err error) {
	f.warnCores(c)
	release, err := f.testbed.KeepContexts()
	if err != nil {
		return nil, nil, err
	}
	progress = cli.NewProgress(c.ErrOrStderr())
	progress.Step("verify")
	return progress, func() error {
		progress.Done()
		return release()
	}, nil
}

// warnCores warns if no core is left for anything else.
func (f *subjectFlags) warnCores(c *cobra.Command) {
	if cores := f.testbed.Workers + f.testbed.NICs; cores >= runtime.NumCPU() {
		fmt.Fprintf(c.ErrOrStderr(), "all %d cores are workers or NICs: Linux and the Go runtime pause them, which is latency and loss; use a host with more\n", cores)
	}
}
