package umem

// Pool is a worker's freelist: a stack of free frames, the most recently used on top, because its bytes
// are probably in cache, and another stack of large frames. One goroutine owns it.
type Pool struct {
	free  []uint32 // frame starts, multiples of FrameSize
	large []uint32 // starts of large frames, multiples of LargeSize
	last  uint32   // last byte before the large frames
}

// NewPool returns a pool of all frames of m.
func NewPool(m *Memory) *Pool {
	p := &Pool{free: make([]uint32, m.Frames()), large: make([]uint32, m.Large()), last: uint32(m.large - 1)}
	for i := range p.free {
		p.free[i] = uint32(i) * FrameSize
	}
	for i := range p.large {
		p.large[i] = uint32(m.large + i*LargeSize)
	}
	return p
}

// Len returns the number of free frames.
func (p *Pool) Len() int { return len(p.free) }

// Put frees the frame that contains address addr.
func (p *Pool) Put(addr uint32) {
	if addr > p.last {
		p.large = append(p.large, addr&^(LargeSize-1))
		return
	}
	p.free = append(p.free, addr&^(FrameSize-1))
}

// PutBlock frees the frames that contain the addresses.
func (p *Pool) PutBlock(addrs []uint32) {
	free := p.free
	for _, addr := range addrs {
		if addr > p.last {
			p.large = append(p.large, addr&^(LargeSize-1))
			continue
		}
		free = append(free, addr&^(FrameSize-1))
	}
	p.free = free
}

// TakeBlock returns the starts of n free frames, n up to Len. The slice is valid until the next call.
func (p *Pool) TakeBlock(n int) []uint32 {
	left := len(p.free) - n
	block := p.free[left:]
	p.free = p.free[:left]
	return block
}

// Take returns the start of a free frame. The pool must not be empty.
func (p *Pool) Take() uint32 {
	i := len(p.free) - 1
	addr := p.free[i]
	p.free = p.free[:i]
	return addr
}

// LargeLen returns the number of free large frames.
func (p *Pool) LargeLen() int { return len(p.large) }

// TakeLarge returns the start of a free large frame. LargeLen must not be 0.
func (p *Pool) TakeLarge() uint32 {
	i := len(p.large) - 1
	addr := p.large[i]
	p.large = p.large[:i]
	return addr
}

// Large returns the number of the large frame that contains addr, -1 for none.
func (p *Pool) Large(addr uint32) int {
	if addr <= p.last {
		return -1
	}
	return int((addr - p.last - 1) / LargeSize)
}
