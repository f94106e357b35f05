package gen

// flow is what is known of the packets of a flow that have come back. Sequence
// numbers are 64 bits wide here.
type flow struct {
	next       uint64 // one more than the highest seen
	first      uint64 // the lowest seen
	received   uint64 // different packets
	duplicates uint64 // packets that had been received before
	// reordered counts packets that came after one with a higher number (RFC 4737,
	// section 3), duplicates not among them.
	reordered uint64
}

// origin is what sequence number 0 is widened to, so that what came before a
// listener's first packet is not below zero.
const origin = 1 << 32

// flows tracks all flows. Each has a window of bits, one for each of the last
// numbers, which tells duplicates from late packets. A packet that is later than
// that counts as reordered.
type flows struct {
	of     []flow
	window uint64 // bits of each flow, a power of two
	bits   []uint64
}

const (
	maxWindow = 1 << 16
	minWindow = 1 << 10
	allBits   = 1 << 26 // of all flows together, if they have more than minWindow each: 8 MiB
)

func newFlows(n int) *flows {
	fs := &flows{window: maxWindow}
	for fs.window > minWindow && fs.window*uint64(n) > allBits {
		fs.window /= 2
	}
	if n == 0 {
		fs.window = minWindow // a listener: there may be any number
	}
	fs.of = make([]flow, n)
	fs.bits = make([]uint64, uint64(n)*fs.window/64)
	for i := range fs.of {
		fs.of[i].next, fs.of[i].first = origin, origin
	}
	return fs
}

// grow makes room for n flows of which the first number is not known.
func (fs *flows) grow(n int) {
	if n <= len(fs.of) {
		return
	}
	fs.of = append(fs.of, make([]flow, n-len(fs.of))...)
	fs.bits = append(fs.bits, make([]uint64, uint64(n)*fs.window/64-uint64(len(fs.bits)))...)
}

// note counts a packet and reports whether it is one that had not come before.
func (fs *flows) note(number int, seq uint32) (fresh bool) {
	f := &fs.of[number]
	if f.next == 0 { // a listener's first packet of the flow
		f.next = origin + uint64(seq)
		f.first = f.next
	}
	words := fs.bits[uint64(number)*fs.window/64:][:fs.window/64]
	// The nearest number that ends in these 32 bits.
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

// expected is how many packets a listener should have received of a flow: those
// between the lowest and the highest number.
func (f *flow) expected() uint64 { return f.next - f.first }
