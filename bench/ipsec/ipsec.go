// Package ipsec measures the whole way of a packet through a gateway on memory
// ports: clear in and ESP out, or ESP in and clear out.
//
// Every run is verified before it is timed, against Go's crypto packages alone
// (library.go): they open what the router has sealed, and seal what it is to open.
//
// A sequence number is received once. So the packets to decrypt are prepared, as many
// as fit the memory given for it, and a round plays them once, through associations that
// have never seen them, and counts in the middle of the play. Without a replay window
// (Window 0) fewer are played again and again, as clear ones are to be encrypted.
package ipsec

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warproute/warproute/bench/bed"
	"github.com/warproute/warproute/fib"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/suite"
	"github.com/warproute/warproute/umem"
)

// IMIX are the sizes of a mix, in bytes of inner IP packet, 7:4:1. The largest leaves
// room for a tunnel's headers on an ordinary link.
var IMIX = []int{64, 576, 64, 64, 576, 64, 1408, 64, 576, 64, 576, 64}

// Limits of Options.
const (
	MinSize = 64
	MaxSize = 1500
	MaxSAs  = 1 << 16
)

// Options describe a measurement.
type Options struct {
	IPv6      bool // inside and outside
	Direction esp.Direction
	Suite     string
	SAs       int   // tunnels, each with a key and policies of its own
	Sizes     []int // of inner IP packets in bytes, in turn
	Window    int   // of inbound associations; 0: replays are not refused
	Ring      int   // MiB of prepared packets a worker
	Table     string
	Routes    int
	Engine    string
	Bed       bed.Config
	Duration  time.Duration // of one round, where packets are played without end
	Rounds    int           // the median counts
	Seed      uint64
}

// Result is what a measurement found. Its figures are the median round's.
type Result struct {
	Engine    string    `json:"engine"`
	Family    string    `json:"family"`
	Suite     string    `json:"suite"`
	Direction string    `json:"direction"`
	Sizes     []int     `json:"inner_bytes"` // of IP packets, in turn
	SAs       int       `json:"sas"`
	Window    int       `json:"replay_window,omitempty"`
	Table     string    `json:"table"`
	Routes    int       `json:"routes"`
	Workers   int       `json:"workers"`
	Cards     int       `json:"cards"`
	GPUs      int       `json:"gpus"`
	Batch     int       `json:"max_packets"`
	Chunks    int       `json:"chunks"` // that a worker may have in flight
	Verified  int       `json:"verified_packets"`
	Gbps      float64   `json:"gbit_per_second"` // of inner IP packets
	Mpps      float64   `json:"mpps"`
	Rounds    []float64 `json:"rounds_mpps"`
	NsPacket  float64   `json:"ns_per_packet"` // of one worker
	// Limit is the rate of the same loop and ports with an engine that forwards
	// unseen.
	Limit float64 `json:"limit_mpps"`
	// InPlace is the rate at which GPUs, as many at once, read packets of these sizes and write
	// them back where they lie, and do nothing else.
	InPlace float64 `json:"in_place_mpps,omitempty"`
	// Host is the rate of the same loop and ports with a GPU that is done at once.
	Host float64 `json:"host_mpps,omitempty"`

	P50    float64            `json:"p50_us"` // a chunk, from the first packet received to the last sent
	P99    float64            `json:"p99_us"`
	Stages map[string]float64 `json:"stage_ns_per_packet"`
	// Library is how long Go's crypto packages alone take for a packet: an engine on the
	// same bed, in the same rounds, that seals or opens the same bytes in the same frames
	// with the same keys, and does nothing else.
	Library float64 `json:"library_ns_per_packet"`
	// Share is Library by the time that the CPU engine has a packet. Both are from Submit
	// to Done: the ports' copying is in neither.
	Share float64 `json:"share_of_library,omitempty"`
	// Hot is what Library becomes with one key, and one packet that stays in the first
	// cache.
	Hot float64 `json:"library_hot_ns_per_packet"`
}

// variety is how many different packets there are: at least one for each of 10,000
// tunnels, and a second-level cache's worth or more.
const variety = 16384

// Run verifies, then measures.
func Run(o Options) (*Result, error) {
	if err := o.Bed.Check(); err != nil {
		return nil, err
	}
	if o.Direction == esp.Out || o.SAs < o.Bed.Workers {
		// An association's packets reach several workers: in no order that a window permits.
		o.Window = 0
	}
	t, err := newTraffic(&o)
	if err != nil {
		return nil, err
	}
	res := &Result{
		Family: "IPv4", Suite: o.Suite, Direction: names[o.Direction], Sizes: o.Sizes, SAs: o.SAs, Window: o.Window,
		Table: o.Table, Routes: len(t.routes), Workers: o.Bed.Workers, Cards: o.Bed.Cards, GPUs: o.Bed.GPUs, Batch: o.Bed.MaxPackets, Chunks: o.Bed.Chunks,
	}
	if o.IPv6 {
		res.Family = "IPv6"
	}
	if res.Verified, err = t.verify(); err != nil {
		return nil, fmt.Errorf("verify %s, %s, before measuring: %w", o.Suite, res.Direction, err)
	}
	if o.Engine == "gpu" {
		if res.InPlace, err = t.inPlace(); err != nil {
			return nil, err
		}
	}
	rings, err := t.rings(t.protect)
	if err != nil {
		return nil, err
	}
	var halves []ring
	if o.Engine == "gpu" {
		if halves, err = t.hostRings(rings); err != nil {
			return nil, err
		}
	}
	var rounds, alone, half []round
	var limits, hot []float64
	for range o.Rounds { // taking turns, so that all meet the same machine
		r, err := t.measure(rings)
		if err != nil {
			return nil, err
		}
		if halves != nil {
			r, err := t.by(host).measure(halves)
			if err != nil {
				return nil, err
			}
			half = append(half, r)
		}
		limit, err := t.measureOther(rings, bed.Blind)
		if err != nil {
			return nil, err
		}
		crypto, err := t.measureOther(rings, t.aloneEngines(rings))
		if err != nil {
			return nil, err
		}
		ns, err := t.timeHot()
		if err != nil {
			return nil, err
		}
		rounds, limits, alone, hot = append(rounds, r), append(limits, limit.mpps()), append(alone, crypto), append(hot, ns)
		res.Rounds = append(res.Rounds, r.mpps())
	}
	res.Limit, res.Hot = middle(limits), middle(hot)
	res.Library = middleRound(alone).stages["engine"]
	if len(half) > 0 {
		res.Host = middleRound(half).mpps()
	}
	res.fill(middleRound(rounds))
	return res, nil
}

var names = [...]string{esp.Out: "encrypt", esp.In: "decrypt"}

func middle(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

func middleRound(r []round) round {
	slices.SortFunc(r, func(a, b round) int { return cmp.Compare(a.mpps(), b.mpps()) })
	return r[len(r)/2]
}

// fill takes over the figures of a round.
func (res *Result) fill(r round) {
	res.Engine, res.Mpps = r.engine, r.mpps()
	res.Gbps = r.bytes * 8 * res.Mpps / 1e3
	res.NsPacket = 1e3 * float64(res.Workers) / res.Mpps
	res.P50, res.P99, res.Stages = r.p50, r.p99, r.stages
	if r.engine == "cpu" {
		res.Share = res.Library / r.stages["engine"]
	}
}

// traffic is a measurement's tunnels and packets, and the routes that they take.
type traffic struct {
	*Options
	rnd     *rand.Rand
	suite   *suite.Suite
	routes  []bed.Route
	base    *fib.FIB
	tunnels []*tunnel
	inner   []inner
}

// mtu of both ports lets the largest packet through in any suite's tunnel.
const mtu = umem.MaxMTU

func newTraffic(o *Options) (t *traffic, err error) {
	t = &traffic{Options: o, rnd: rand.New(rand.NewPCG(o.Seed, 0))}
	if t.suite, err = suite.ByName(o.Suite); err != nil {
		return nil, err
	}
	if t.routes, err = bed.Routes(t.rnd, o.Table, o.IPv6, o.Routes, o.Seed); err != nil {
		return nil, err
	}
	if t.base, err = bed.NewFIB(t.routes, mtu); err != nil {
		return nil, err
	}
	if err := t.makeTunnels(); err != nil {
		return nil, err
	}
	t.makeInner()
	return t, nil
}
