// Package ipsec measures an IPsec gateway on memory ports: cleartext in and ESP out, or ESP in and
// cleartext out.
//
// Every run is verified before it is timed, against Go's crypto packages (library.go): they decrypt
// the router's packets, and encrypt packets for it.
//
// A sequence number is accepted once. So packets to decrypt are encrypted in advance, as many as fit in memory, and a round plays them
// once, through new SAs. Without a replay window (Window 0), and to encrypt, a smaller set is played repeatedly, unless
// they are prepared (testbed.Config.Prepared): then they are in the router's frames before a round, and each is received once.
package ipsec

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/fib"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/suite"
	"github.com/warproute/warproute/umem"
)

// IMIX is a mix of inner packet sizes in bytes, 7:4:1. The largest leaves room for tunnel headers at
// an MTU of 1500.
var IMIX = []int{64, 576, 64, 64, 576, 64, 1408, 64, 576, 64, 576, 64}

// Limits of Options.
const (
	MinSize = 64
	MaxSize = 1500
	MaxSAs  = 1 << 16
)

// Options are the parameters of a measurement.
type Options struct {
	IPv6      bool // inner and outer packets
	Direction esp.Direction
	Suite     string
	SAs       int   // tunnels, each with its own key and policies
	Sizes     []int // of inner IP packets in bytes, round-robin
	Window    int   // replay window; 0: none
	Ring      int   // MiB of packets to decrypt per worker
	Table     string
	Routes    int
	Engine    string
	Testbed   testbed.Config
	Duration  time.Duration // of a round, without warm-up; shorter if packets are played once and run out
	Rounds    int
	Only      bool // measure the engine, and nothing to compare it with but the PCIe limit
	Seed      uint64
}

// Result is the result of a measurement. Rates are those of the median round.
type Result struct {
	testbed.Summary
	Suite     string    `json:"suite"`                      // cipher suite
	Direction string    `json:"direction"`                  // encrypt or decrypt
	Sizes     []int     `json:"inner_bytes"`                // round-robin
	SAs       int       `json:"sas"`                        // each of a tunnel with its own policies
	Window    int       `json:"replay_window,omitempty"`    // in packets, to decrypt
	DMA       string    `json:"dma"`                        // copy: a core copies packets; none: they are in memory before they arrive
	Prepared  int       `json:"prepared_packets,omitempty"` // of a worker in a round
	Gbps      float64   `json:"gbit_per_second"`            // of inner IP packets
	Mpps      float64   `json:"mpps"`                       // million packets per second
	Rounds    []float64 `json:"rounds_mpps"`                // of all rounds, in their order
	Seconds   float64   `json:"seconds"`                    // of the median round, between its samples
	NsPacket  float64   `json:"ns_per_packet"`              // of one worker
	CPU       float64   `json:"cpu_ns_per_packet"`          // of the workers that packets are offered to, without idle polls
	Limit     float64   `json:"limit_mpps,omitempty"`       // of the same testbed with a null engine
	PCIeLimit float64   `json:"pcie_limit_mpps,omitempty"`  // of GPUs that only read and write packets of these sizes
	Host      float64   `json:"host_mpps,omitempty"`        // of the same testbed with a null device

	P50    float64            `json:"p50_us"`              // of a chunk, from the first packet received to the last transmitted
	P99    float64            `json:"p99_us"`              // the same
	Stages map[string]float64 `json:"stage_ns_per_packet"` // of one worker, by stage of a chunk: wait, engine, order, tx and total
	// Library is the time of an engine that only encrypts or decrypts the same packets with Go's
	// crypto packages, in the same testbed and the same rounds.
	Library float64 `json:"library_ns_per_packet"`
	// Share is Library divided by the engine stage of the CPU engine.
	Share float64 `json:"share_of_library,omitempty"`
	// Hot is Library with one key and one packet, in the L1 cache.
	Hot float64 `json:"library_hot_ns_per_packet"`
}

// variety is the number of different packets: at least one per tunnel up to 10,000 tunnels, and more
// than fit in an L2 cache.
const variety = 16384

// Run verifies, then measures.
func Run(o Options) (*Result, error) {
	if err := o.Testbed.Check(); err != nil {
		return nil, err
	}
	o.limitWindow()
	t, err := newTraffic(&o)
	if err != nil {
		return nil, err
	}
	res := &Result{
		Summary: o.summary(len(t.routes)),
		Suite:   o.Suite, Direction: names[o.Direction], Sizes: o.Sizes, SAs: o.SAs, Window: o.Window,
	}
	if res.Verified, err = t.verify(); err != nil {
		return nil, fmt.Errorf("verify %s, %s, before measuring: %w", o.Suite, res.Direction, err)
	}
	if o.Engine == "gpu" {
		if res.PCIeLimit, err = t.pcieLimit(); err != nil {
			return nil, err
		}
	}
	rings, err := t.rings(t.protect)
	if err != nil {
		return nil, err
	}
	packets := t.limitPrepared(rings)
	res.Prepared, res.DMA = o.Testbed.Prepared, "copy"
	if res.Prepared > 0 {
		res.DMA = "none"
	}
	var hostRings []ring
	if o.Engine == "gpu" && !o.Only {
		if hostRings, err = t.hostRings(rings); err != nil {
			return nil, err
		}
	}
	var rounds, libraries, hosts []testbed.Round
	var limits, hot []float64
	for range o.Rounds { // alternate, so that all run under the same conditions
		r, err := t.measure(rings, packets)
		if err != nil {
			return nil, err
		}
		rounds, res.Rounds = append(rounds, r), append(res.Rounds, r.Mpps())
		if o.Only {
			continue
		}
		if hostRings != nil {
			r, err := t.by(host).measure(hostRings, packets)
			if err != nil {
				return nil, err
			}
			hosts = append(hosts, r)
		}
		limit, err := t.measureOther(rings, testbed.Null)
		if err != nil {
			return nil, fmt.Errorf("measure a null engine: %w", err)
		}
		crypto, err := t.measureOther(rings, t.libraryEngines(rings))
		if err != nil {
			return nil, fmt.Errorf("measure Go's crypto packages: %w", err)
		}
		ns, err := t.timeHot()
		if err != nil {
			return nil, err
		}
		limits, libraries, hot = append(limits, limit.Mpps()), append(libraries, crypto), append(hot, ns)
	}
	if !o.Only {
		res.Limit, res.Hot = median(limits), median(hot)
		res.Library = testbed.Median(libraries).Stages["engine"]
	}
	if len(hosts) > 0 {
		res.Host = testbed.Median(hosts).Mpps()
	}
	res.fill(testbed.Median(rounds))
	return res, nil
}

var names = [...]string{esp.Out: "encrypt", esp.In: "decrypt"}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// fill sets the figures of the median round.
func (res *Result) fill(r testbed.Round) {
	res.Engine, res.Mpps, res.Seconds = r.Engine, r.Mpps(), r.Seconds
	res.Gbps = r.Bytes * 8 * res.Mpps / 1e3
	res.NsPacket = 1e3 * float64(cmp.Or(res.Busy, res.Workers)) / res.Mpps
	res.CPU = r.CPU
	res.P50, res.P99, res.Stages = r.P50, r.P99, r.Stages
	if r.Engine == "cpu" {
		res.Share = res.Library / r.Stages["engine"]
	}
}

// traffic is a measurement's tunnels and packets, and the routes that they take.
type traffic struct {
	*Options
	rnd     *rand.Rand
	suite   *suite.Suite
	routes  []testbed.Route
	base    *fib.FIB
	tunnels []*tunnel
	inner   []inner
}

// mtu of both ports fits the largest packet in a tunnel of any suite.
const mtu = umem.MaxMTU

func newTraffic(o *Options) (t *traffic, err error) {
	t = &traffic{Options: o, rnd: rand.New(rand.NewPCG(o.Seed, 0))}
	if t.suite, err = suite.ByName(o.Suite); err != nil {
		return nil, err
	}
	if t.routes, err = testbed.Routes(t.rnd, o.Table, o.IPv6, o.Routes, o.Seed); err != nil {
		return nil, err
	}
	if t.base, err = testbed.NewFIB(t.routes, mtu); err != nil {
		return nil, err
	}
	if o.Testbed.Express {
		if err := testbed.AddExpress(t.base, mtu); err != nil {
			return nil, err
		}
	}
	if err := t.makeTunnels(); err != nil {
		return nil, err
	}
	t.makeInner()
	return t, nil
}
