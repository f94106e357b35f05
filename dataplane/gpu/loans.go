package gpu

import (
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/ipsec"
)

// When the numbers of an SA are lent, and when a loan ends.

const (
	weighTime = 100 * time.Millisecond

	// reviewTime is the time in which all loans are reviewed, or reviewEach for each if they are many.
	reviewTime = 10 * time.Millisecond
	reviewEach = 10 * time.Microsecond
	reviewSAs  = 16 // at a time, without delay
	reviewMost = 1024

	tunnelsAtOnce = 256 // in lendTunnels, meanwhile the worker processes no packets
)

// lend lends the numbers of SAs of a chunk. They are new, lendTunnels has not lent them, or their loans have ended.
func (l *lender) lend(sas []*ipsec.SA, by outbound) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.usable() && l.ready.Load() && !l.paused() {
		l.lendAll(sas, by)
	}
}

// lendTunnels lends the numbers of the current SAs of the next tunnels, up to tunnelsAtOnce, and reports whether it has done so for all.
// If they were lent only when packets meet an SA, a gateway with thousands of tunnels would be slow for a while: the packets of a chunk
// behind the first one without a loan are the host's, which takes their numbers from the device. Until the last call, chunks have another
// form, and the host takes numbers of lent SAs by requests. So each call resets the counts of weigh.
func (l *lender) lendTunnels(by outbound) (all bool) {
	l.beginWeighing(batch.Clock())
	n := min(by.TunnelLimit(), maxTunnels)
	end := min(n, l.nextTunnel+tunnelsAtOnce)
	var sas []*ipsec.SA
	for ; l.nextTunnel < end; l.nextTunnel++ {
		if s := by.Current(l.nextTunnel); s != nil && by.MayLend(s, maxKeys) {
			sas = append(sas, s)
		}
	}
	l.lendAll(sas, by)
	return l.nextTunnel >= n // not after revoke
}

// lendAll lends the numbers of SAs, which can be in the list several times. The loan of one by which packets do not leave any more ends at
// once.
func (l *lender) lendAll(sas []*ipsec.SA, by outbound) {
	var all []request
	var lent []*ipsec.SA
	for _, s := range sas {
		key := s.KeyIndex()
		if s.Tunnel() >= maxTunnels || key >= maxKeys || !by.Leaves(s) || !l.users.ended(l.keyUsers[key]) || !l.users.ended(l.tunnelUsers[s.Tunnel()]) { // the host may yet assign numbers to packets of older chunks
			continue
		}
		delete(l.keyUsers, key)
		delete(l.tunnelUsers, s.Tunnel())
		first, last, ok := s.Lend(lentSeqs, l)
		if !ok {
			continue
		}
		x := &lentSA{longest: by.Longest(s), key: key, next: first}
		l.sas[s] = x
		l.order, lent = append(l.order, s), append(lent, s)
		all = append(all, request{what: requestLend, key: x.key, seq: last, count: uint32(last - first + 1), tunnel: uint16(s.Tunnel()), longest: uint16(x.longest), esn: s.Extended()})
	}
	if _, ok := l.ask(all, nil); !ok {
		l.revoke()
		return
	}
	var ended []*ipsec.SA
	for _, s := range lent {
		if s.Usable(ipsec.Out) != ipsec.OK || !by.Leaves(s) { // see ipsec.SA.EndLoan: it looks after the change
			ended = append(ended, s)
		}
	}
	l.endLoans(ended)
}

// extend lends more numbers of an SA, which the device has asked for, with each chunk until it has them.
func (l *lender) extend(s *ipsec.SA) {
	if !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	x := l.sas[s]
	if x == nil || s.LastSequence()-s.Sequence() > lentSeqs {
		return
	}
	if last := s.Extend(lentSeqs); last != 0 {
		if _, ok := l.ask([]request{{what: requestExtend, key: x.key, seq: last}}, nil); !ok {
			l.revoke()
		}
	}
}

// review looks at loans before the device gets a chunk, at all of them within a time: a loan ends if its SA is not usable, for
// example after its lifetime, or not its tunnel's current one, or if its inner MTU has changed.
func (l *lender) review(by outbound) {
	now := batch.Clock()
	if now < time.Duration(l.due.Load()) || !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	l.weigh()
	n := len(l.order)
	all := max(reviewTime, time.Duration(n)*reviewEach)
	l.due.Store(int64(now + all*reviewSAs/time.Duration(max(n, reviewSAs))))
	ended := l.ending[:0]
	for range min(n, reviewMost, 1+int(time.Duration(n)*(now-l.reviewed)/all)) {
		l.next = (l.next + 1) % n
		s := l.order[l.next]
		if x := l.sas[s]; s.Usable(ipsec.Out) != ipsec.OK || !by.Leaves(s) || by.Longest(s) != x.longest {
			ended = append(ended, s)
		}
	}
	l.reviewed, l.ending = now, ended
	l.endLoans(ended)
}

// weigh ends all loans for a while if the host takes many of the numbers itself, as each time costs it a request. After the pause, an SA
// is lent only when the device has left a packet of it to the host: SAs that only other chunks use cause no requests.
func (l *lender) weigh() {
	now := batch.Clock()
	if now-l.since < l.weighEvery {
		return
	}
	if len(l.order) > 0 && l.taken*4 > l.taken+int(l.assigned.Load()) {
		l.nextTunnel = maxTunnels
		l.pausedUntil.Store(int64(now + lendPause))
		l.endLoans(l.order) // last: if the device is lost, revoke pauses for longer, and begins with the first tunnel
	}
	l.beginWeighing(now)
}

// beginWeighing resets the counts of weigh.
func (l *lender) beginWeighing(now time.Duration) {
	l.since, l.taken = now, 0
	l.assigned.Store(0)
}
