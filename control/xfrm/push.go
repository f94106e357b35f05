package xfrm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/ipsec"
)

// pushed is what Linux was told of an association.
type pushed struct {
	packets    uint64
	sequence   uint64 // outbound
	soft, hard bool
}

// linuxGap is by how much we keep ahead of Linux where it sends by a state, too: more
// than it sends until it is told.
const linuxGap = 1 << 16

// push tells Linux what associations were used for, so that key daemons see traffic,
// and which ones are to be replaced. With thousands of them that takes a while, for which
// events do not wait: a peer may be about to use what they tell of.
func (m *Mirror) push() {
	for _, a := range m.states {
		if a.sa == nil {
			continue
		}
		err := errors.Join(m.pushUse(a), m.pushExpiry(a))
		if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENOENT) { // it is gone, as an event says
			m.log.Warn("could not tell Linux how an association was used", append(a.about(), "err", err)...)
		}
		select {
		case b := <-m.full:
			m.take(b)
			m.commit()
		default:
		}
	}
}

// pushGaps tells Linux of the numbers that outbound associations skip, before a packet has one
// behind them: a mirror that starts after a crash within the first second skips what this one
// was using, too.
func (m *Mirror) pushGaps() error {
	for _, a := range m.states {
		if a.sa == nil || !a.out() {
			continue
		}
		if err := m.tell(a, a.sa.Stats()); err != nil && !errors.Is(err, unix.ESRCH) { // it is gone, as an event says
			return fmt.Errorf("note the sequence numbers of SPI %#x to %v: %w", a.id.spi, a.id.dst, err)
		}
	}
	return nil
}

func (m *Mirror) pushUse(a *association) error {
	used := a.sa.Stats()
	if used.Packets == a.pushed.packets {
		return nil
	}
	return m.tell(a, used)
}

// tell tells Linux what an association was used for.
func (m *Mirror) tell(a *association, used ipsec.Stats) error {
	if a.out() {
		// Linux must not be set back behind what it has sent.
		theirs, err := m.sequenceOf(a)
		if err != nil {
			return err
		}
		if theirs > max(a.pushed.sequence, a.sequence[ipsec.Out]) {
			a.sa.Skip(theirs + linuxGap)
		}
	}
	sequence := a.sa.Sequence()
	if err := m.conn.Do(msgNewAE, unix.NLM_F_REPLACE, a.use(used, sequence, time.Now()), nil); err != nil {
		return err
	}
	a.pushed.packets, a.pushed.sequence = used.Packets, sequence
	m.counts.pushes++
	return nil
}

// sequenceOf asks Linux for the last number that it has of an outbound association.
func (m *Mirror) sequenceOf(a *association) (seq uint64, err error) {
	err = m.conn.Do(msgGetAE, 0, a.aevent(), func(msg rtnl.Message) error {
		var s state
		_, attrs := rtnl.Header(msg.Data, sizeofAEventID)
		for attrs.Next() {
			s.attribute(&attrs, &algorithms{})
		}
		seq = s.sequence[ipsec.Out]
		return attrs.Err
	})
	return seq, err
}

// pushExpiry tells of limits in packets and bytes that Linux does not see reached. Of
// ages it knows itself.
func (m *Mirror) pushExpiry(a *association) error {
	switch {
	case !a.pushed.soft && (a.sa.SoftExpired() || a.nearEnd()):
		a.pushed.soft = true
		return m.conn.Do(msgExpire, 0, a.expiry(false), nil)
	case !a.pushed.hard && a.sa.HardExpired():
		a.pushed.hard = true
		return m.conn.Do(msgExpire, 0, a.expiry(true), nil)
	}
	return nil
}

// nearEnd reports whether most of the 32-bit sequence numbers are used.
func (a *association) nearEnd() bool { return !a.esn && a.sa.Sequence() > math.MaxUint32/8*7 }

// aevent is struct xfrm_aevent_id, by which Linux finds a state.
func (a *association) aevent() []byte {
	b := make([]byte, sizeofAEventID)
	host.PutUint16(b[20:], putAddress(b, a.id.dst))
	binary.BigEndian.PutUint32(b[16:], a.id.spi)
	b[22] = a.id.protocol
	putAddress(b[24:], a.src)
	host.PutUint32(b[44:], a.reqid)
	return b
}

// use is the message that sets what was used of a state, struct xfrm_lifetime_cur, and
// its replay state, in the form in which Linux keeps it.
func (a *association) use(used ipsec.Stats, sequence uint64, now time.Time) []byte {
	if a.used == 0 && used.Packets > 0 {
		a.used = uint64(now.Unix())
	}
	var life []byte
	for _, n := range []uint64{a.bytes + used.Bytes, a.packets + used.Packets, a.added, a.used} {
		life = host.AppendUint64(life, n)
	}
	msg := rtnl.AppendAttr(a.aevent(), attrLifetime, life)

	var seq [2]uint64 // by direction
	var bits uint32   // of the window: all received
	if seq[a.sa.Config().Direction] = sequence; !a.out() {
		bits = math.MaxUint32
	}
	numbers := func(list ...uint32) (b []byte) {
		for _, n := range list {
			b = host.AppendUint32(b, n)
		}
		return b
	}
	low := func(d ipsec.Direction) uint32 { return uint32(seq[d]) }
	high := func(d ipsec.Direction) uint32 { return uint32(seq[d] >> 32) }
	if a.bitmap == 0 {
		return rtnl.AppendAttr(msg, attrReplay, numbers(low(ipsec.Out), low(ipsec.In), bits))
	}
	v := numbers(a.bitmap, low(ipsec.Out), low(ipsec.In), high(ipsec.Out), high(ipsec.In), uint32(a.window))
	for range a.bitmap {
		v = host.AppendUint32(v, bits)
	}
	return rtnl.AppendAttr(msg, attrReplayESN, v)
}

// expiry is struct xfrm_user_expire, of which Linux reads how the state is found.
func (a *association) expiry(hard bool) []byte {
	b := make([]byte, sizeofExpire)
	host.PutUint16(b[212:], putAddress(b[56:], a.id.dst))
	binary.BigEndian.PutUint32(b[72:], a.id.spi)
	b[76] = a.id.protocol
	putAddress(b[80:], a.src)
	if hard {
		b[sizeofSA] = 1
	}
	return b
}
