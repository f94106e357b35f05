package dataplane

import "time"

// pace bounds the chunks of a lane in bytes, so that the worker is not busy with one of them for longer than
// the packets of lanes before it may wait. It learns how long chunks take: the CPU engine executes a chunk
// when it is submitted, and of a GPU's chunks the worker applies the policies, unless they are
// posted unread.
type pace struct {
	budget time.Duration // for a chunk, half the shortest deadline of the lanes before; 0 for none
	bytes  int           // of a chunk
}

// Bounds of pace.bytes. The lower one bounds the loss of throughput with short budgets.
const (
	minPace   = 4 << 10
	firstPace = 64 << 10
	maxPace   = 4 << 20
)

func newPace(budget time.Duration) pace { return pace{budget: budget, bytes: firstPace} }

// limit returns the largest number of bytes for the next chunk. most is another limit, 0 for none.
func (p *pace) limit(most int) int {
	switch {
	case p.budget == 0:
		return most
	case most == 0:
		return p.bytes
	}
	return min(p.bytes, most)
}

// record adjusts the bytes after a chunk. limited reports whether bytes ended the chunk. A chunk that took
// long because the thread was not running halves them at most.
func (p *pace) record(took time.Duration, limited bool) {
	switch {
	case p.budget == 0:
	case took > p.budget:
		p.bytes = max(minPace, p.bytes/2, int(int64(p.bytes)*int64(p.budget)/int64(took)))
	case limited && took < p.budget*3/4:
		p.bytes = min(maxPace, p.bytes+p.bytes/8)
	}
}
