package dataplane

import (
	"sync/atomic"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/hist"
)

// Stage is a part of a chunk's way whose latency is recorded.
type Stage uint8

const (
	StageWait   Stage = iota // first packet received → chunk submitted
	StageEngine              // submitted → results seen
	StageOrder               // results seen → every earlier chunk transmitted
	StageTx                  // that → packets in the transmit rings, kernel told
	StageTotal               // first packet received → kernel told
	NumStages   = iota
)

var stages = [NumStages]string{"wait", "engine", "order", "tx", "total"}

func (s Stage) String() string { return stages[s] }

// portCounters are one worker's counts for one port. The worker alone writes
// them, once a burst or once a chunk; readers add up the workers.
type portCounters struct {
	rxPackets, rxBytes atomic.Uint64
	txPackets, txBytes atomic.Uint64
	drops              [batch.NumReasons]atomic.Uint64 // by ingress port
	_                  [64]byte                        // keeps the next worker's counters off the last line
}

// workerStats are what a worker lets others see.
type workerStats struct {
	chunks  atomic.Uint64
	held    atomic.Int64 // packets waiting for neighbours
	pending atomic.Int64 // packets in transmit rings
	packets hist.Histogram
	stages  [NumStages]hist.Histogram
}

// PortStats are a port's counts since the start, all workers together.
type PortStats struct {
	RxPackets, RxBytes uint64
	TxPackets, TxBytes uint64
	Drops              [batch.NumReasons]uint64
}

// Dropped is the sum of the drops.
func (p *PortStats) Dropped() (n uint64) {
	for _, d := range p.Drops {
		n += d
	}
	return n
}

// Stats are a router's counts since the start.
type Stats struct {
	Ports   []PortStats
	Engine  string
	Workers int
	Chunks  uint64 // chunks that engines finished
	Held    int64  // packets waiting for neighbours now
	Packets hist.Snapshot
	Stages  [NumStages]hist.Snapshot // in nanoseconds, one value a chunk
}
