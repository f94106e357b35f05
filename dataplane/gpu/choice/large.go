package choice

import "time"

const (
	largeChunk  = 128    // packets, of which the costs per chunk are a small part
	largeWeight = 1. / 8 // of a new chunk in the factor
	largeMost   = 2.     // times the factor, that a chunk counts at most
)

// largeChunks measures what a packet takes the worker in large chunks of the CPU engine. Where chunks are small, packets
// wait for memory one after another, and the estimates count that as time per packet. There are large chunks even so:
// a pause of the worker causes one.
type largeChunks struct {
	factor [NumClasses]float64 // mean of the measured times ÷ those by the prior costs; 0: unknown

	// The last large chunk, until the next chunk is submitted.
	x         terms
	class     Class
	took      float64 // nanoseconds in the engine; 0: none
	submitted time.Duration
	idle      time.Duration // of the worker until the submission of the last chunk
}

// finish remembers a chunk of a class that the CPU has finished. If it was not alone, the worker also spends time on chunks of the GPU.
func (l *largeChunks) finish(choice *Choice, class Class, took float64, alone bool) {
	if choice.x[packets] >= largeChunk && alone {
		l.x, l.class, l.took, l.submitted = choice.x, class, took, choice.submitted
	}
}

// next learns from the last chunk when the next one is submitted. Since then, the worker has processed and transmitted the
// former, and received the latter. That takes about as long as it took to receive the former: a small one has the costs per chunk, too.
func (l *largeChunks) next(at *Situation) {
	if took, idle := l.took, at.Idle-l.idle; took > 0 && l.idle >= 0 && idle >= 0 {
		ratio := max(took, float64(at.Now-l.submitted-idle)) / priorMarginal(l.class, l.x[packets], l.x[bytes])
		f := &l.factor[l.class]
		if *f == 0 {
			*f = ratio
		}
		most := largeMost * *f
		*f += (min(ratio, most) - *f) * largeWeight
	}
	l.took, l.idle = 0, at.Idle
}

// perPacket returns the nanoseconds of a packet with a number of bytes in large chunks of a class, or those of an
// estimate, if they are fewer, or no large chunk was seen.
func (l *largeChunks) perPacket(class Class, size, estimated float64) float64 {
	if f := l.factor[class]; f > 0 {
		return min(estimated, f*priorMarginal(class, 1, size))
	}
	return estimated
}

// priorMarginal returns the prior nanoseconds of packets on the CPU and the ports, without those per chunk.
func priorMarginal(class Class, n, size float64) float64 {
	e, p := &priorCPU[class], &priorPort
	return (e[packets]+p[packets])*n + (e[bytes]+p[bytes])*size
}
