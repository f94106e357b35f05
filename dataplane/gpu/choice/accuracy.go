package choice

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	publishAfter = time.Millisecond
	halveAfter   = time.Second
)

// Accuracy compares predicted with measured times of an engine's chunks. The weight of a chunk halves every
// second. A worker writes it; any goroutine reads it.
type Accuracy struct {
	chunks, predicted, measured, errors float64 // weighted sums
	halved, published                   time.Duration
	shown                               [4]atomic.Uint64 // weight and means as float64, at most publishAfter old
}

// record adds a chunk with its times in nanoseconds.
func (a *Accuracy) record(predicted, measured float64, now time.Duration) {
	a.chunks++
	a.predicted += predicted
	a.measured += measured
	a.errors += math.Abs(predicted-measured) / (measured + 1)
	if now-a.published >= publishAfter {
		a.publish(now)
	}
}

func (a *Accuracy) publish(now time.Duration) {
	if a.halved == 0 {
		a.halved = now
	}
	if n := int((now - a.halved) / halveAfter); n > 0 {
		half := math.Ldexp(1, -min(n, 64))
		a.chunks, a.predicted, a.measured, a.errors = a.chunks*half, a.predicted*half, a.measured*half, a.errors*half
		a.halved = now
	}
	for i, v := range [...]float64{a.chunks, a.predicted / a.chunks, a.measured / a.chunks, a.errors / a.chunks} {
		a.shown[i].Store(math.Float64bits(v))
	}
	a.published = now
}

// Means are mean times of an engine's recent chunks.
type Means struct {
	Predicted, Measured time.Duration
	Error               float64 // mean of |predicted - measured| ÷ measured
	weight              float64
}

// AddTo adds the chunks of a worker to m.
func (a *Accuracy) AddTo(m *Means) {
	var v [4]float64
	for i := range v {
		v[i] = math.Float64frombits(a.shown[i].Load())
	}
	if v[0] == 0 {
		return
	}
	m.weight += v[0]
	share := v[0] / m.weight
	m.Predicted += time.Duration((v[1] - float64(m.Predicted)) * share)
	m.Measured += time.Duration((v[2] - float64(m.Measured)) * share)
	m.Error += (v[3] - m.Error) * share
}
