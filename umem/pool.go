package umem

// Pool is a worker's stack of free frames, the most recently used on top, where
// its bytes are most likely still in cache, and another of large ones. It belongs to
// one goroutine.
type Pool struct {
	free  []uint32 // frame starts, multiples of FrameSize
	large []uint32 // large frames' starts, multiples of LargeSize
	last  uint32   // the last byte that is in no large frame
}

// NewPool returns a pool that holds every frame of m.
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

// Len is the number of free frames.
func (p *Pool) Len() int { return len(p.free) }

// Put takes back the frame that addr, any byte of it, lies in.
func (p *Pool) Put(addr uint32) {
	if addr > p.last {
		p.large = append(p.large, addr&^(LargeSize-1))
		return
	}
	p.free = append(p.free, addr&^(FrameSize-1))
}

// PutBlock takes back the frames that addresses, any byte of each, lie in.
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

// TakeBlock returns the starts of n free frames, up to Len of them. They are to be copied
// before the pool is used again.
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

// LargeLen is the number of free large frames.
func (p *Pool) LargeLen() int { return len(p.large) }

// TakeLarge returns the start of a free large frame. There must be one.
func (p *Pool) TakeLarge() uint32 {
	i := len(p.large) - 1
	addr := p.large[i]
	p.large = p.large[:i]
	return addr
}

// Large returns which large frame of the memory addr lies in, counted from 0; -1 for
// none.
func (p *Pool) Large(addr uint32) int {
	if addr <= p.last {
		return -1
	}
	return int((addr - p.last - 1) / LargeSize)
}
