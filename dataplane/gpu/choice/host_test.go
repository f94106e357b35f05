package choice

import "math/rand/v2"

// host is a simulated host with known costs. Times are in nanoseconds.
type host struct {
	name    string
	cpu     [NumClasses]terms // time of a chunk
	blocked [NumClasses]terms // time for which a GPU chunk blocks the worker
	latency [NumClasses]terms // of an idle GPU
	link    terms             // time for which a chunk occupies the GPU's link
	noise   float64           // relative standard deviation of each time

	pauseEvery, pause         float64 // mean time between time slices of another process, and their length
	preemptedEvery, preempted float64 // the same for the worker's thread
	others                    float64 // share of the link that other workers use

	changeAt float64 // time of change; 0: none
	change   func(*host)
}

// Costs of the simulated worker and its limits.
const (
	simMaxPackets = 256
	simRing       = 4096 // packets
	simChunks     = 8
	simFull       = 2 << 20 // bytes of backlog from which the GPU has no free slot
	simReceive    = 12.     // per packet
	simTransmit   = 12.
	simLoop       = 100. // per iteration
)

func plainHost() host {
	return host{
		name:    "host",
		cpu:     [NumClasses]terms{{400, 28, 0, 0}, {600, 330, 0.55, 0}, {600, 520, 3.1, 0}},
		blocked: [NumClasses]terms{{250, 9, 0, 0}, {500, 180, 0.02, 0}, {500, 180, 0.02, 0}},
		latency: [NumClasses]terms{{4400, 15, 0, 0}, {7000, 35, 0.03, 0}, {10000, 60, 0.12, 0}},
		link:    terms{0, 3, 0.028, 0},
		noise:   0.08,
	}
}

func scale(all *[NumClasses]terms, by float64) {
	for class := range all {
		for term := range all[class] {
			all[class][term] *= by
		}
	}
}

func slowCPU() host {
	h := plainHost()
	h.name = "slow CPU"
	scale(&h.cpu, 2)
	scale(&h.blocked, 1.5)
	return h
}

func slowGPU() host {
	h := plainHost()
	h.name = "slow GPU"
	scale(&h.latency, 3)
	for term := range h.link {
		h.link[term] *= 3
	}
	return h
}

func sharedGPU() host {
	h := plainHost()
	h.name, h.others = "shared GPU", 0.9
	return h
}

func timeSlicedGPU() host {
	h := plainHost()
	h.name, h.pauseEvery, h.pause = "time-sliced GPU", 15e6, 2.6e6
	return h
}

// load is the traffic of a worker.
type load struct {
	class Class
	bytes int     // of a packet; 0: IMIX
	rate  float64 // packets per nanosecond
	burst int     // packets that arrive together; 0: 1
}

func (l *load) size(rnd *rand.Rand) int {
	if l.bytes != 0 {
		return l.bytes
	}
	switch n := rnd.IntN(12); {
	case n < 7:
		return 64
	case n < 11:
		return 576
	default:
		return 1408
	}
}

func (l *load) mean() float64 {
	if l.bytes != 0 {
		return float64(l.bytes)
	}
	return (7*64 + 4*576 + 1408) / 12.
}

// capacity returns the packets per nanosecond of each engine alone.
func (h *host) capacity(l *load) (cpu, gpu float64) {
	b := l.mean()
	const worker, n = simReceive + simTransmit + simLoop/simMaxPackets, simMaxPackets
	per := func(t *terms) float64 { return t[fixed]/n + t[packets] + t[bytes]*b }
	return 1 / (worker + per(&h.cpu[l.class])), min(1/(worker+per(&h.blocked[l.class])), (1-h.others)/per(&h.link))
}

func (t *terms) of(n, size int) float64 {
	return t[fixed] + t[packets]*float64(n) + t[bytes]*float64(size)
}
