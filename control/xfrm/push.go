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

// pushed is the use of an SA that was reported to Linux.
type pushed struct {
	packets    uint64
	sequence   uint64 // outbound
	soft, hard bool
}

// linuxGap is the distance kept from the sequence numbers of a state that Linux sends with, too:
// more than it sends in an interval.
const linuxGap = 1 << 16

// push reports the use and expiry of SAs to Linux, for key daemons. It applies events in
// between, because thousands of SAs take a while and a peer could already use new ones.
func (m *Mirror) push() {
	if m.passive {
		return
	}
	for _, a := range m.states {
		if a.sa == nil {
			continue
		}
		err := errors.Join(m.pushUse(a), m.pushExpiry(a))
		if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENOENT) { // deleted, an event follows
			m.log.Warn("report SA use to Linux", append(a.logAttrs(), "err", err)...)
		}
		select {
		case b := <-m.loop.Events:
			m.apply(b)
			m.commit()
		default:
		}
	}
}

// pushGaps reports the skipped numbers of outbound SAs to Linux before they are used, so that a
// mirror that starts after a crash within the first second skips the numbers of this one.
func (m *Mirror) pushGaps() error {
	for _, a := range m.states {
		if a.sa == nil || !a.out() {
			continue
		}
		if err := m.report(a, a.sa.Stats()); err != nil && !errors.Is(err, unix.ESRCH) { // deleted, an event follows
			return fmt.Errorf("report sequence numbers of SPI %#x to %v: %w", a.id.spi, a.id.dst, err)
		}
	}
	return nil
}

func (m *Mirror) pushUse(a *association) error {
	used := a.sa.Stats()
	if used.Packets == a.pushed.packets {
		return nil
	}
	return m.report(a, used)
}

// report reports the use of an SA to Linux.
func (m *Mirror) report(a *association, used ipsec.Stats) error {
	if a.out() {
		// Do not set Linux back behind its own packets.
		theirs, err := m.sequenceOf(a)
		if err != nil {
			return err
		}
		if theirs > max(a.pushed.sequence, a.sequence[ipsec.Out]) {
			a.sa.Skip(theirs + linuxGap)
		}
	}
	sequence := a.sa.LastSequence()
	if err := m.conn.Do(msgNewAE, unix.NLM_F_REPLACE, a.use(used, sequence, time.Now()), nil); err != nil {
		return err
	}
	a.pushed.packets, a.pushed.sequence = used.Packets, sequence
	return nil
}

// sequenceOf returns the last number of an outbound SA in Linux.
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

// pushExpiry reports reached limits: soft ones, also by sequence numbers that are almost used up, and hard ones. Linux
// detects ages itself, too.
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

// nearEnd reports whether 7/8 of the 32-bit sequence numbers are used.
func (a *association) nearEnd() bool { return !a.esn && a.sa.LastSequence() > math.MaxUint32/8*7 }

// aevent returns the struct xfrm_aevent_id that identifies a state.
func (a *association) aevent() []byte {
	b := make([]byte, sizeofAEventID)
	host.PutUint16(b[20:], putAddress(b, a.id.dst))
	binary.BigEndian.PutUint32(b[16:], a.id.spi)
	b[22] = a.id.protocol
	putAddress(b[24:], a.src)
	host.PutUint32(b[44:], a.reqid)
	return b
}

// use returns the message that sets struct xfrm_lifetime_cur and the replay state of a state, in
// its short or long form.
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

// expiry returns the struct xfrm_user_expire of a state.
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
