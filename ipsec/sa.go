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

// SA is a security association. Workers use it concurrently; each passes its own worker number,
// below the one given to NewSA, and a number belongs to one goroutine.
//
// Layout: an SA's fields are rarely in the nearest caches, and a written cache line is in the
// writer's cache. Fields that every packet reads come first, rarely used ones next, and those that
// workers write last, in pairs of lines, since processors fetch two lines at a time. A packet of an
// IPv4 tunnel touches the first pair, one line of the last pair and one of its worker's. A packet that a device has opened touches only a
// line of the last pair, if its worker is the first that received packets of the SA. A received packet also touches the ring of the window
// if its number is not in the block of the highest one.
type SA struct {
	// Read by every packet, rarely written.
	state     atomic.Uint32 // the reason why packets are refused, or live
	keyIndex  atomic.Uint32 // KeyIndex plus 1
	mtu       atomic.Uint64 // see MTU
	due       atomic.Int64  // time by the clock of the next limit of age, or never
	clock     *Clock
	workers   []worker
	direction Direction
	mode      Mode
	df        DFPolicy
	extended  bool // 64-bit sequence numbers
	sumsUDP   bool
	counted   bool // limited in packets or bytes
	// Lengths in bytes, precomputed to save branches.
	outer uint8 // tunnel header
	udp   uint8 // UDP encapsulation header
	// The second line begins here.
	spi         uint32
	tunnel      uint32
	iv          uint8
	align       uint8 // see suite.Suite
	icv         uint8
	keyMost     uint8      // see DeviceKeyUsed; in segments
	keyFixed    uint8      // the same
	outerSum    uint16     // checksum of the outer IPv4 header
	dst         netip.Addr // of the Config
	ifID        uint32
	outerHeader [packet.IPv6Len]byte // the end of IPv6's is in the next pair

	// Rarely used.
	encap      Encap
	pathMTU    atomic.Uint32      // see PathMTU
	transforms []*suite.Transform // by worker
	suite      *suite.Suite
	c          *Config // without keys
	life       *life
	key        *device.Key // see DeviceKey
	erase      func()      // overwrites the keys on devices; may be nil
	loan       atomic.Pointer[loan]
	main       atomic.Int32 // inbound: the worker that counts in mainCounts, plus 1; 0: none yet
	_          [linePair - 24 - 84]byte

	// Written by all workers. A line for received packets, and one for the numbers of sent packets.
	replay     window
	mainCounts Counts
	sequence   atomic.Uint64 // outbound: last number taken, or lent; see lent
	limit      atomic.Uint64 // see Limit; 0: none
	nonces     *Nonces       // outbound; constant, but in the line that takers of numbers fetch anyway
	_          [linePair/2 - 24]byte
}

// linePair is the number of bytes that processors fetch together: two cache lines.
const linePair = 128

// Values of SA.state, which only grows.
const (
	live = iota
	expired
	killed
)

// worker holds the fields that one worker writes, in a cache line of its own. It has no pointers: Go puts a header word before memory
// with pointers, which would misalign the lines.
type worker struct {
	Counts
	replays, icvFailures counter.Counter
	reserved             reservation
	_                    [linePair - 64]byte
}

// NewSA returns an SA for a number of workers. Errors name every mistake in c. NewSA keeps neither
// Key nor AuthKey; the caller may overwrite them.
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
	key.Tunnel = c.Tunnel
	c.Key, c.AuthKey = nil, nil
	s := &SA{
		c: &c, spi: c.SPI, tunnel: c.Tunnel, direction: c.Direction, mode: c.Mode, df: c.DF, extended: c.ESN, dst: c.Dst, ifID: c.IfID, clock: c.Clock,
		suite: st, iv: uint8(st.IVLen), align: uint8(st.Align), icv: uint8(st.ICVLen),
		key:     key,
		workers: make([]worker, workers), transforms: []*suite.Transform{t},
	}
	most, fixed := key.Used()
	s.keyMost, s.keyFixed = uint8(most/device.SegmentBytes), uint8(fixed/device.SegmentBytes)
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
	s.describeHeaders(&c)
	if c.Direction == In {
		s.replay.start(c.ReplayWindow)
	}
	return s, nil
}

// label returns the SA's name for errors.
func (c *Config) label() string {
	if c.Name != "" {
		return fmt.Sprintf("%q (SPI %#x)", c.Name, c.SPI)
	}
	return fmt.Sprintf("with SPI %#x", c.SPI)
}

// Config returns the configuration without keys.
func (s *SA) Config() Config { return *s.c }

// SPI, Tunnel, IfID, Mode, Direction and Dst return fields of the Config.
func (s *SA) SPI() uint32          { return s.spi }
func (s *SA) Tunnel() uint32       { return s.tunnel }
func (s *SA) IfID() uint32         { return s.ifID }
func (s *SA) Mode() Mode           { return s.mode }
func (s *SA) Direction() Direction { return s.direction }
func (s *SA) Dst() netip.Addr      { return s.dst }

// Extended reports whether sequence numbers have 64 bits (ESN).
func (s *SA) Extended() bool { return s.extended }

// SumsUDP reports whether transmitted packets have a checksum in the UDP encapsulation header.
func (s *SA) SumsUDP() bool { return s.sumsUDP }

// Suite returns the cipher suite.
func (s *SA) Suite() *suite.Suite { return s.suite }

// Combined reports whether the suite's cipher authenticates, without HMAC.
func (s *SA) Combined() bool { return s.suite.Auth == suite.Combined }

// OpensCBC reports whether the SA is inbound and its cipher AES-CBC.
func (s *SA) OpensCBC() bool { return s.direction == In && s.suite.Cipher == suite.CBC }

// IVLen returns the length of the IV in bytes.
func (s *SA) IVLen() int { return int(s.iv) }

// Overhead returns the largest number of bytes that Encapsulate adds.
func (s *SA) Overhead() int {
	return int(s.outer+s.udp) + espLen + int(s.iv+s.align) - 1 + trailerLen + int(s.icv)
}

// Kill makes the SA refuse all packets from now on. Workers may still finish a packet.
func (s *SA) Kill() { s.raise(killed) }

// Zero kills the SA and overwrites its keys, as suite.Transform.Zero does. The caller guarantees
// that no worker can find the SA, and that every worker has finished its batch since.
func (s *SA) Zero() {
	s.Kill()
	s.EndLoan()
	s.zeroCopies()
	for _, t := range s.transforms {
		t.Zero()
	}
}

// Killed reports whether Kill or Zero was called.
func (s *SA) Killed() bool { return s.state.Load() == killed }

// raise sets the state, unless the current one is later.
func (s *SA) raise(state uint32) {
	for {
		old := s.state.Load()
		if old >= state || s.state.CompareAndSwap(old, state) {
			return
		}
	}
}

// ready reports whether the SA accepts packets in a direction without a check of the clock.
func (s *SA) ready(as Direction) bool {
	return s.state.Load() == live && s.direction == as && s.due.Load() == never
}

// usable returns the reason why packets are refused in a direction, or OK.
func (s *SA) usable(as Direction) Error {
	if s.state.Load() == live && s.direction == as && s.withinAge() {
		return OK
	}
	in := [...]Error{InStateDirError, InStateExpired, InStateInvalid}
	out := [...]Error{OutStateDirError, OutStateExpired, OutStateInvalid}
	which := 0
	if s.direction == as {
		s.raise(expired) // live, and too old
		which = int(s.state.Load())
	}
	if as == In {
		return in[which]
	}
	return out[which]
}

// Stats holds the counters of an SA.
type Stats struct {
	Packets, Bytes uint64 // in the units of Limits
	Replays        uint64 // refused by the anti-replay window
	ICVFailures    uint64 // refused because the ICV does not match
}

// Add adds the counters of another SA.
func (n *Stats) Add(of Stats) {
	n.Packets += of.Packets
	n.Bytes += of.Bytes
	n.Replays += of.Replays
	n.ICVFailures += of.ICVFailures
}

// Stats sums the counters of all workers.
func (s *SA) Stats() (sum Stats) {
	sum.Packets, sum.Bytes = s.mainCounts.packets.Load(), s.mainCounts.bytes.Load()
	for i := range s.workers {
		w := &s.workers[i]
		sum.Packets += w.packets.Load()
		sum.Bytes += w.bytes.Load()
		sum.Replays += w.replays.Load()
		sum.ICVFailures += w.icvFailures.Load()
	}
	return sum
}
