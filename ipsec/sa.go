package ipsec

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/warproute/warproute/ipsec/device"
	"github.com/warproute/warproute/ipsec/suite"
	"github.com/warproute/warproute/packet"
)

// SA is a security association. Any number of workers use it at once; each passes
// its own number, below the one given to NewSA, and only one goroutine a number.
type SA struct {
	c     Config // without keys
	suite *suite.Suite
	// Lengths in bytes, so that packets need no branches for them.
	outer       int // of a tunnel's header
	udp         int // of the header of UDP encapsulation
	sumsUDP     bool
	outerHeader [packet.IPv6Len]byte
	outerSum    uint16 // of it, as IPv4's

	state    atomic.Uint32 // why every packet is refused, if so
	mtu      atomic.Uint64 // see MTU
	pathMTU  atomic.Uint32 // see PathMTU
	limit    atomic.Uint64 // see Limit; 0: none
	life     life
	replay   window
	copies   copies
	workers  []worker
	_        [64]byte
	sequence atomic.Uint64 // outbound: last number taken. On a line of its own: every packet writes it.
	_        [56]byte
}

// Values of SA.state, in which they only grow.
const (
	live = iota
	expired
	killed
)

// worker is what one worker writes.
type worker struct {
	transform *suite.Transform
	packets, bytes,
	replays, forgeries atomic.Uint64 // written by the worker, read by all
	lease lease
	_     [128 - 11*8]byte // two lines: they are fetched in pairs
}

// add adds to a counter that only the caller writes.
func add(c *atomic.Uint64, n uint64) { c.Store(c.Load() + n) }

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
	s := &SA{c: c, suite: st, workers: make([]worker, workers)}
	t, err := st.New(c.Key, c.AuthKey)
	if err != nil {
		return fail(err)
	}
	if s.copies.key, err = device.NewKey(st, c.Key, c.AuthKey); err != nil {
		return fail(err)
	}
	s.copies.used = s.copies.key.Used(c.Direction == In)
	s.workers[0].transform = t
	for i := 1; i < workers; i++ {
		s.workers[i].transform = t.Clone()
	}
	s.c.Key, s.c.AuthKey = nil, nil
	if c.Mode == Tunnel {
		s.outer, s.outerHeader = ipLen(c.Dst.Is4()), outerHeader(&c)
		s.outerSum = packet.Sum(s.outerHeader[:packet.IPv4Len])
	}
	if c.Encap != nil {
		s.udp, s.sumsUDP = udpLen, c.Dst.Is6()
	}
	s.life.start(&s.c)
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
func (s *SA) Config() Config { return s.c }

// Bundle, Mode and Dst return the Config's.
func (s *SA) Bundle() uint32  { return s.c.Bundle }
func (s *SA) Mode() Mode      { return s.c.Mode }
func (s *SA) Dst() netip.Addr { return s.c.Dst }

// Extended tells whether its sequence numbers have 64 bits.
func (s *SA) Extended() bool { return s.c.ESN }

// SumsUDP tells whether packets sent have a checksum of UDP encapsulation.
func (s *SA) SumsUDP() bool { return s.sumsUDP }

// Suite returns what it protects packets with.
func (s *SA) Suite() *suite.Suite { return s.suite }

// Overhead returns by how many bytes Encapsulate lengthens a packet at most.
func (s *SA) Overhead() int {
	return s.outer + s.udp + espLen + s.suite.IVLen + s.suite.Align - 1 + trailerLen + s.suite.ICVLen
}

// Kill has every packet refused from now on. Workers may be in the middle of one.
func (s *SA) Kill() { s.raise(killed) }

// Zero kills the association and overwrites the keys, as suite.Transform.Zero says. The
// caller guarantees that no worker can find it any more, and that every one has finished
// its batch since, so that none is using it.
func (s *SA) Zero() {
	s.Kill()
	s.copies.zero()
	for i := range s.workers {
		s.workers[i].transform.Zero()
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

// usable returns why no packet may pass, in the association's direction.
func (s *SA) usable(as Direction) Error {
	if s.state.Load() == live && s.c.Direction == as && s.life.young(s.c.Clock) {
		return OK
	}
	return s.refusal(as)
}

// refusal is the seldom part of usable.
func (s *SA) refusal(as Direction) Error {
	in := [...]Error{InStateDirError, InStateExpired, InStateInvalid}
	out := [...]Error{OutStateDirError, OutStateExpired, OutStateInvalid}
	which := 0
	if s.c.Direction == as {
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
