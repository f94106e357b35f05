package choice

import "time"

const (
	largeChunk  = 128              // packets, of which the costs per chunk are a small part
	fullChunk   = 32               // packets of a full chunk that counts as a large one
	largeWeight = 1. / 8           // of a new chunk in the factor
	largeMost   = 2.               // times the factor, that a chunk counts at most
	largeMemory = 30 * time.Second // for which the factor holds without large chunks: while the kernel runs, these are mostly the GPU's
)

// largeChunks measures what a packet takes the worker in large chunks of the CPU engine: of at least largeChunk packets, or full ones of
// at least fullChunk, as chunks may be limited to fewer. In small chunks, a packet takes several times as long, and the estimates do not
// separate that from the costs per chunk. There are large chunks even so: a pause of the worker causes one.
//
// It measures an iteration of the worker: from the submission of a large chunk to that of the first chunk that is not of a later lane than
// the one before it. Meanwhile the worker processes and transmits the large chunk, and those that it submits for later lanes, and then receives the
// next one, in place of the large one: a small one takes about as long to receive, because of the costs per chunk.
type largeChunks struct {
	factor [NumClasses]float64 // mean of the measured times ÷ those by the prior costs; 0: unknown
	seen   [NumClasses]time.Duration

	// The current iteration, if prior is not 0.
	class           Class   // of its large chunk
	lane            uint8   // of its last chunk
	prior           float64 // nanoseconds of its packets, by the prior costs
	submitted, idle time.Duration
}

// submit ends the iteration, unless the chunk that is submitted is of a later lane than the one before it.
func (l *largeChunks) submit(at *Situation) {
	if l.prior == 0 {
		return
	}
	if at.Lane > l.lane {
		l.lane = at.Lane
		return
	}
	if idle := at.Idle - l.idle; at.Idle >= 0 && l.idle >= 0 && idle >= 0 {
		l.learn(float64(at.Now-l.submitted-idle)/l.prior, at.Now)
	}
	l.prior = 0
}

// learn adds the ratio of measured and prior time of an iteration.
func (l *largeChunks) learn(ratio float64, now time.Duration) {
	f := &l.factor[l.class]
	if *f == 0 || now-l.seen[l.class] > largeMemory {
		*f = ratio
	}
	most := largeMost * *f
	*f += (min(ratio, most) - *f) * largeWeight
	l.seen[l.class] = now
}

// finish adds a chunk of a class that the CPU has finished to the iteration. A large one begins an iteration, unless one is measured.
func (l *largeChunks) finish(c *Choice, class Class) {
	prior := priorMarginal(class, c.x[packets], c.x[bytes])
	switch {
	case l.prior > 0:
		l.prior += prior
	case c.x[packets] >= largeChunk || c.full && c.x[packets] >= fullChunk:
		l.class, l.lane, l.prior, l.submitted, l.idle = class, c.lane, prior, c.submitted, c.idle
	}
}

// abandon ends an iteration without learning from it: the GPU has a chunk, on which the worker spends time, too.
func (l *largeChunks) abandon() { l.prior = 0 }

// perPacket returns the nanoseconds of a packet with a number of bytes in large chunks of a class, or those of an
// estimate, if they are fewer, or there was no large chunk lately.
func (l *largeChunks) perPacket(class Class, size, estimated float64, now time.Duration) float64 {
	if f := l.factor[class]; f > 0 && now-l.seen[class] <= largeMemory {
		return min(estimated, f*priorMarginal(class, 1, size))
	}
	return estimated
}

// priorMarginal returns the prior nanoseconds of packets on the CPU and the ports, without those per chunk.
func priorMarginal(class Class, n, size float64) float64 {
	e, p := &priorCPU[class], &priorPort
	return (e[packets]+p[packets])*n + (e[bytes]+p[bytes])*size
}
