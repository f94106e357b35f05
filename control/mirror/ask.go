package mirror

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// Bounds on what strangers can make us do: a scan of an attached prefix asks for
// as many neighbours as it has addresses. Linux itself keeps at most about a
// thousand unresolved ones.
const (
	maxRequests = 1024 // waiting for the mirror's goroutine
	maxAsked    = 1024 // neighbours in a window
	maxChecked  = 256  // stale neighbours in a window
)

// request is what Resolve was called with.
type request struct {
	adjacency uint32
	dst       netip.Addr
}

// asker asks Linux to find neighbours, on a goroutine of its own, since Linux
// answers only when its lock is free.
type asker struct {
	opts     options
	conn     *rtnl.Conn
	requests chan request
	asks     chan neighborID
	asked    map[neighborID]struct{} // in this window; the mirror's goroutine's
}

func newAsker(opts options) (*asker, error) {
	conn, err := rtnl.Dial()
	if err != nil {
		return nil, err
	}
	return &asker{
		opts: opts, conn: conn,
		requests: make(chan request, maxRequests),
		asks:     make(chan neighborID, maxAsked),
		asked:    map[neighborID]struct{}{},
	}, nil
}

func (a *asker) run(stop <-chan struct{}) {
	for {
		select {
		case n := <-a.asks:
			// Errors are of links that went away and of full tables of Linux: its
			// own packets meet the same, and the next request tries again.
			_ = a.conn.UseNeighbor(n.link, n.addr)
		case <-stop:
			return
		}
	}
}

// ask asks for a neighbour unless it was asked for in this window or the window
// is full. It does not block.
func (a *asker) ask(n neighborID) bool {
	if _, again := a.asked[n]; again || len(a.asked) >= maxAsked {
		return false
	}
	select {
	case a.asks <- n:
		a.asked[n] = struct{}{}
		return true
	default:
		return false
	}
}

func (a *asker) nextWindow() { clear(a.asked) }

// answered lets a neighbour be asked for again in this window: it has answered, so
// should it be forgotten or fail, packets need not wait for the next.
func (a *asker) answered(n neighborID) { delete(a.asked, n) }

// Resolve asks Linux for the neighbour that packets to dst, held at an unresolved
// adjacency, wait for. It may be called by any goroutine, does not block, and may
// be called again for every packet: a neighbour that does not answer is asked for once a
// second at most, and when too many are wanted some are left for the next call. The answer
// is a change of the forwarding base and its generation.
func (m *Mirror) Resolve(adjacency uint32, dst netip.Addr) {
	select {
	case m.asker.requests <- request{adjacency, dst.Unmap()}:
	default:
	}
}

// resolve finds out what a request is about.
func (m *Mirror) resolve(r request) {
	a := m.numbered[r.adjacency]
	if a == nil {
		return // freed meanwhile
	}
	n := a.to
	if !n.addr.IsValid() {
		n.addr = r.dst
	}
	if known := m.neighbors[n]; known != nil && known.usable() || !n.addr.IsValid() || n.addr.IsMulticast() {
		return
	}
	m.asker.ask(n)
}

// refresh has Linux check stale neighbours that routes use: since the packets
// pass it by, it would never find out that one moved or died.
func (m *Mirror) refresh(now time.Time) {
	checked := 0
	for id, n := range m.neighbors {
		if n.state&unix.NUD_STALE == 0 || now.Sub(n.since) < m.asker.opts.refreshStale || m.adjacencies[id] == nil {
			continue
		}
		if checked++; checked > maxChecked || !m.asker.ask(id) {
			return
		}
		n.since = now
	}
}
