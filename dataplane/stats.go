package dataplane

import (
	"sync/atomic"
	"time"

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

// workerStats are what a worker lets others see.
type workerStats struct {
	chunks  atomic.Uint64
	held    atomic.Int64 // packets waiting for neighbours or security associations
	pending atomic.Int64 // packets in transmit rings
	flying  atomic.Int64 // chunks that the engine has
	idle    atomic.Int64 // nanoseconds of turns that found nothing to do

	free, withheld atomic.Int64 // frames: in the pool, and see worker.withheld
	made           atomic.Int64 // packets that the router added to those received
	merged         atomic.Int64 // fragments that became part of others

	delivered atomic.Int64 // packets that the host was given

	packets hist.Histogram
	stages  [NumStages]hist.Histogram
}

// record adds the way of a finished chunk.
func (s *workerStats) record(c *batch.Chunk) {
	s.chunks.Add(1)
	s.packets.Record(uint64(c.N), 1)
	s.stages[StageWait].Record(uint64(c.Submitted-c.Received), 1)
	s.stages[StageEngine].Record(uint64(c.Done-c.Submitted), 1)
	s.stages[StageOrder].Record(uint64(c.Ordered-c.Done), 1)
	s.stages[StageTx].Record(uint64(c.Sent-c.Ordered), 1)
	s.stages[StageTotal].Record(uint64(c.Sent-c.Received), 1)
}

// PortStats are a port's counts since the start, all workers together.
type PortStats struct {
	RxPackets, RxBytes uint64
	TxPackets, TxBytes uint64 // given to the transmit rings
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
	Ports    []PortStats
	Engine   string
	Workers  int
	Chunks   uint64        // chunks that engines finished
	Held     int64         // packets waiting for neighbours or security associations now
	Pending  int64         // packets given to the transmit rings and not sent yet
	InFlight int64         // chunks that the engine has now
	Idle     time.Duration // of all workers: polling or asleep, with nothing to do
	Frames   []FrameStats  // by worker

	// What was received and made was sent, dropped, merged or delivered, or is still under way.
	Made      int64 // ICMP errors, fragments but for one of each packet, and what Local gave
	Merged    int64 // fragments, but for one of each packet that was put together
	Delivered int64 // to Local

	Packets hist.Snapshot
	Stages  [NumStages]hist.Snapshot // in nanoseconds, one value a chunk
}

// FrameStats are a worker's frames now, large frames not counted.
type FrameStats struct {
	Total    int64 `json:"total"`
	Free     int64 `json:"free"`     // in the pool; the others are in rings, chunks and queues, or withheld
	Withheld int64 `json:"withheld"` // not used, as a failed GPU may still write to them
}
