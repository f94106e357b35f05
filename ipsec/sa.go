package ipsec

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/warproute/warproute/internal/counter"
	"github.com/warproute/warproute/ipsec/device"
	"github.com/warproute/warproute/ipsec/suite"
	"github.com/warproute/warproute/packet"
)

// SA is a security association. Any number of workers use it at once; each passes
// its own number, below the one given to NewSA, and only one goroutine a number.
//
// With many associations nothing of them is in a processor's nearest caches, and with many
// workers what one has written is in another's. So what packets need is together, apart from
// what nearly none does, and what workers write is apart from what they only read: in pairs
// of lines, as processors fetch two at a time. A packet of a tunnel in IPv4 touches the first
// pair, one line of the last and one of its worker's.
type SA struct {
	// What every packet reads, and hardly anybody writes.
	state     atomic.Uint32 // why every packet is refused, if so
	number    atomic.Uint32 // 1 more than Number
	mtu       atomic.Uint64 // see MTU
	due       atomic.Int64  // by the clock: when there is a limit of age to look at, or never
	clock     *Clock
	workers   []worker
	spi       uint32
	bundle    uint32
	direction Direction
	mode      Mode
	df        DFPolicy
	extended  bool // sequence numbers have 64 bits
	sumsUDP   bool
	counted   bool // there is a limit in packets or bytes
	// Lengths in bytes, so that packets need no branches for them.
	outer       uint8 // of a tunnel's header
	udp         uint8 // of the header of UDP encapsulation
	iv          uint8
	align       uint8 // see suite.Suite
	icv         uint8
	keyMost     uint8                // see DeviceKeyUsed; in lines of 16 bytes,
	keyFixed    uint8                // these, too
	outerSum    uint16               // of the outer header, as IPv4's
	dst         netip.Addr           // the Config's
	outerHeader [packet.IPv6Len]byte // the end of IPv6's is in the next pair

	// What few packets need.
	encap      Encap
	pathMTU    atomic.Uint32      // see PathMTU
	transforms []*suite.Transform // by worker
	suite      *suite.Suite
	c          *Config // without keys
	life       *life
	key        *device.Key // see DeviceKey
	forget     func()      // overwrites the keys that devices have; nil: nothing
	_          [linePair - 16 - 72]byte

	// What all workers write.
	sequence atomic.Uint64 // outbound: last number taken
	limit    atomic.Uint64 // see Limit; 0: none
	nonces   *Nonces       // outbound; nobody writes it, but who takes numbers needs it and has the line
	replay   window
}

// linePair is how many bytes processors fetch together: two lines.
const linePair = 128

// Values of SA.state, in which they only grow.
const (
	live = iota
	expired
	killed
)

// worker is what one worker writes: a line. It has no pointers, as Go puts a word in front of
// memory that has, and of each worker's line a part would be in the next.
type worker struct {
	packets, bytes,
	replays, forgeries counter.Counter
	lease lease
	_     [linePair - 64]byte
}

func (w *worker) count(packets, bytes uint64) {
	w.packets.Add(packets)
	w.bytes.Add(bytes)
}

// NewSA makes an association for a number of workers. Errors name every fault of c.
// It keeps neither Key nor AuthKey: the caller may overwrite them.
func NewSA(c Config, workers int) (*SA, error) {
	fail := func(err error) (*SA, error) {
		return nil, fmt.Errorf("security association %s: %w", c.label(), err)
	}
	if workers < 1 {
		return fail(fmt.Errorf("%d workers: want one at least", workers))
	}
	if err := c.validate(); err != nil {
		return fail(err)
	}
	st, err := suite.ByName(c.Suite)
	if err != nil {
		return fail(err)
	}
	t, err := st.New(c.Key, c.AuthKey)
	if err != nil {
		return fail(err)
	}
	key, err := device.NewKey(st, c.Key, c.AuthKey, c.Direction == In)
	if err != nil {
		return fail(err)
	}
	c.Key, c.AuthKey = nil, nil
	s := &SA{
		c: &c, spi: c.SPI, bundle: c.Bundle, direction: c.Direction, mode: c.Mode, df: c.DF, extended: c.ESN, dst: c.Dst, clock: c.Clock,
		suite: st, iv: uint8(st.IVLen), align: uint8(st.Align), icv: uint8(st.ICVLen),
		key:     key,
		workers: make([]worker, workers), transforms: []*suite.Transform{t},
	}
	most, fixed := key.Used()
	s.keyMost, s.keyFixed = uint8(most/device.LineBytes), uint8(fixed/device.LineBytes)
	for range workers - 1 {
		s.transforms = append(s.transforms, t.Clone())
	}
	if c.Mode == Tunnel {
		s.outer, s.outerHeader = uint8(ipLen(c.Dst.Is4())), outerHeader(&c)
		s.outerSum = packet.Sum(s.outerHeader[:packet.IPv4Len])
	}
	if c.Encap != nil {
		s.encap, s.udp, s.sumsUDP = *c.Encap, udpLen, c.Dst.Is6()
	}
	s.life = newLife(&c)
	s.counted = s.life.counts()
	s.due.Store(s.life.firstAt())
	if s.nonces = c.Nonces; s.nonces == nil {
		s.nonces = &processNonces
	}
	if c.Direction == In {
		s.replay.start(c.ReplayWindow)
	}
	return s, nil
}

// label is what errors call the association.
func (c *Config) label() string {
	if c.Name != "" {
		return fmt.Sprintf("%q (SPI %#x)", c.Name, c.SPI)
	}
	return fmt.Sprintf("with SPI %#x", c.SPI)
}

// Config returns the association's, without keys.
func (s *SA) Config() Config { return *s.c }

// Bundle, Mode and Dst return the Config's.
func (s *SA) Bundle() uint32  { return s.bundle }
func (s *SA) Mode() Mode      { return s.mode }
func (s *SA) Dst() netip.Addr { return s.dst }

// Extended tells whether its sequence numbers have 64 bits.
func (s *SA) Extended() bool { return s.extended }

// SumsUDP tells whether packets sent have a checksum of UDP encapsulation.
func (s *SA) SumsUDP() bool { return s.sumsUDP }

// Suite returns what it protects packets with.
func (s *SA) Suite() *suite.Suite { return s.suite }

// IVLen returns the length of the suite's IVs in bytes.
func (s *SA) IVLen() int { return int(s.iv) }

// Overhead returns by how many bytes Encapsulate lengthens a packet at most.
func (s *SA) Overhead() int {
	return int(s.outer+s.udp) + espLen + int(s.iv+s.align) - 1 + trailerLen + int(s.icv)
}

// Kill has every packet refused from now on. Workers may be in the middle of one.
func (s *SA) Kill() { s.raise(killed) }

// Zero kills the association and overwrites the keys, as suite.Transform.Zero says. The
// caller guarantees that no worker can find it any more, and that every one has finished
// its batch since, so that none is using it.
func (s *SA) Zero() {
	s.Kill()
	s.zeroCopies()
	for _, t := range s.transforms {
		t.Zero()
	}
}

// Killed reports whether Kill or Zero was called.
func (s *SA) Killed() bool { return s.state.Load() == killed }

// raise sets the state unless it is a later one already.
func (s *SA) raise(state uint32) {
	for {
		old := s.state.Load()
		if old >= state || s.state.CompareAndSwap(old, state) {
			return
		}
	}
}

// ready reports whether packets may pass in a direction, and there is no need to ask for the time.
func (s *SA) ready(as Direction) bool {
	return s.state.Load() == live && s.direction == as && s.due.Load() == never
}

// usable returns why no packet may pass, in the association's direction.
func (s *SA) usable(as Direction) Error {
	if s.state.Load() == live && s.direction == as && s.young() {
		return OK
	}
	in := [...]Error{InStateDirError, InStateExpired, InStateInvalid}
	out := [...]Error{OutStateDirError, OutStateExpired, OutStateInvalid}
	which := 0
	if s.direction == as {
		s.raise(expired) // live: too old
		which = int(s.state.Load())
	}
	if as == In {
		return in[which]
	}
	return out[which]
}

// Stats are an association's counters.
type Stats struct {
	Packets, Bytes uint64 // as Limits count them
	Replays        uint64 // refused by sequence number
	Forgeries      uint64 // not authentic
}

// Stats sums the counters of all workers.
func (s *SA) Stats() (sum Stats) {
	for i := range s.workers {
		w := &s.workers[i]
		sum.Packets += w.packets.Load()
		sum.Bytes += w.bytes.Load()
		sum.Replays += w.replays.Load()
		sum.Forgeries += w.forgeries.Load()
	}
	return sum
}
