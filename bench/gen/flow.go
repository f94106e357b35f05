package gen

// flow is the counters of a received flow. Sequence numbers are extended to 64 bits.
type flow struct {
	next       uint64 // highest number + 1
	first      uint64 // lowest number
	received   uint64 // different packets
	duplicates uint64 // repeated packets
	// reordered counts packets after one with a higher number (RFC 4737 section 3), without duplicates.
	reordered uint64
}

// origin is the extended sequence number 0, so that numbers before a listener's first packet are
// positive.
const origin = 1 << 32

// flows is the state of all flows. Each has a window with one bit per recent number, to tell duplicates
// from late packets. Packets before the window count as reordered.
type flows struct {
	of     []flow
	window uint64 // bits of each flow, a power of two
	bits   []uint64
}

const (
	maxWindow = 1 << 16
	minWindow = 1 << 10
	allBits   = 1 << 26 // limit of all windows together, except that each has minWindow: 8 MiB
)

func newFlows(n int) *flows {
	fs := &flows{window: maxWindow}
	for fs.window > minWindow && fs.window*uint64(n) > allBits {
		fs.window /= 2
	}
	if n == 0 {
		fs.window = minWindow // a listener: any number of flows
	}
	fs.of = make([]flow, n)
	fs.bits = make([]uint64, uint64(n)*fs.window/64)
	for i := range fs.of {
		fs.of[i].next, fs.of[i].first = origin, origin
	}
	return fs
}

// grow adds flows with unknown first numbers, up to n.
func (fs *flows) grow(n int) {
	if n <= len(fs.of) {
		return
	}
	fs.of = append(fs.of, make([]flow, n-len(fs.of))...)
	fs.bits = append(fs.bits, make([]uint64, uint64(n)*fs.window/64-uint64(len(fs.bits)))...)
}

// count counts a packet and reports whether it is new.
func (fs *flows) count(number int, seq uint32) (fresh bool) {
	f := &fs.of[number]
	if f.next == 0 { // first packet of the flow at a listener
		f.next = origin + uint64(seq)
		f.first = f.next
	}
	words := fs.bits[uint64(number)*fs.window/64:][:fs.window/64]
	// The nearest number with these low 32 bits.
	wide := f.next + uint64(int64(int32(seq-uint32(f.next))))
	bit := func(n uint64) (word *uint64, mask uint64) {
		n &= fs.window - 1
		return &words[n/64], 1 << (n % 64)
	}
	word, mask := bit(wide)
	switch {
	case wide >= f.next:
		if wide-f.next >= fs.window {
			clear(words)
		} else {
			for n := f.next; n < wide; n++ {
				w, m := bit(n)
				*w &^= m
			}
		}
		f.next = wide + 1
	case f.next-wide > fs.window:
		f.reordered++
		f.received++
		f.first = min(f.first, wide)
		return true
	case *word&mask != 0:
		f.duplicates++
		return false
	default:
		f.reordered++
		f.first = min(f.first, wide)
	}
	*word |= mask
	f.received++
	return true
}

// expected returns the number of packets between the lowest and the highest number.
func (f *flow) expected() uint64 { return f.next - f.first }
