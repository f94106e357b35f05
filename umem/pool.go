package umem

// Pool is a worker's stack of free frames, the most recently used on top, where
// its bytes are most likely still in cache. It belongs to one goroutine.
type Pool struct {
	free []uint32 // frame starts, multiples of FrameSize
}

// NewPool returns a pool that holds every frame of m.
func NewPool(m *Memory) *Pool {
	p := &Pool{free: make([]uint32, m.Frames())}
	for i := range p.free {
		p.free[i] = uint32(i) * FrameSize
	}
	return p
}

// Len is the number of free frames.
func (p *Pool) Len() int { return len(p.free) }

// Put takes back the frame that addr, any byte of it, lies in.
func (p *Pool) Put(addr uint32) { p.free = append(p.free, addr&^(FrameSize-1)) }

// Take returns the start of a free frame. The pool must not be empty.
func (p *Pool) Take() uint32 {
	i := len(p.free) - 1
	addr := p.free[i]
	p.free = p.free[:i]
	return addr
}
