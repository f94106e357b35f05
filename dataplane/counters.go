package dataplane

import (
	"sync/atomic"

	"github.com/warproute/warproute/batch"
)

// portCounters are one worker's counters of one port. The worker writes them, once per burst or
// chunk; readers add up the workers.
type portCounters struct {
	rxPackets, rxBytes atomic.Uint64
	txPackets, txBytes atomic.Uint64
	exitPackets        atomic.Uint64 // by ingress port
	exitBytes          atomic.Uint64
	drops              [batch.NumReasons]atomic.Uint64 // by ingress port
	_                  [64]byte                        // separates the cache lines of workers
}

// tally counts the packets of a burst, so that the shared counters are written once per burst.
type tally struct{ packets, bytes uint64 }

func (t *tally) add(frames []batch.Frame) {
	bytes := 0
	for i := range frames {
		bytes += int(frames[i].Len)
	}
	t.addBytes(len(frames), bytes)
}

func (t *tally) addBytes(packets, bytes int) {
	t.packets += uint64(packets)
	t.bytes += uint64(bytes)
}

// flush adds the tally to a pair of counters and clears it.
func (t *tally) flush(packets, bytes *atomic.Uint64) {
	if t.packets > 0 {
		packets.Add(t.packets)
		bytes.Add(t.bytes)
		*t = tally{}
	}
}

// dropTally counts drops by physical port and reason.
type dropTally struct {
	counts  [][batch.NumReasons]uint32
	counted []bool   // by port: it is in touched
	touched []uint16 // ports with counts
}

func newDropTally(ports int) dropTally {
	return dropTally{make([][batch.NumReasons]uint32, ports), make([]bool, ports), make([]uint16, 0, ports)}
}

func (t *dropTally) add(port uint16, reason batch.Reason) {
	t.counts[port][reason]++
	if !t.counted[port] {
		t.counted[port] = true
		t.touched = append(t.touched, port)
	}
}

func (t *dropTally) flush(counters []portCounters) {
	for _, p := range t.touched {
		for r, n := range t.counts[p] {
			if n > 0 {
				counters[p].drops[r].Add(uint64(n))
				t.counts[p][r] = 0
			}
		}
		t.counted[p] = false
	}
	t.touched = t.touched[:0]
}
