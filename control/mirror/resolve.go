package mirror

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// Limits on neighbor requests: a scan of an attached prefix requests as many neighbors as it
// has addresses. Linux keeps at most about a thousand unresolved entries.
const (
	maxRequests = 1024 // queued for the mirror's goroutine
	maxAsked    = 1024 // neighbors per window
	maxChecked  = 256  // stale neighbors per window
)

// request holds the arguments of Resolve.
type request struct {
	adjacency uint32
	dst       netip.Addr
}

// resolver requests neighbors from Linux on a goroutine of its own, because a request blocks
// while the kernel lock is held.
type resolver struct {
	opts     options
	conn     *rtnl.Conn
	requests chan request
	asks     chan neighborID
	asked    map[neighborID]struct{} // in this window; belongs to the mirror's goroutine
	stop     chan struct{}
	running  sync.WaitGroup
}

func newResolver(opts options) (*resolver, error) {
	conn, err := rtnl.Dial()
	if err != nil {
		return nil, err
	}
	return &resolver{
		opts: opts, conn: conn,
		requests: make(chan request, maxRequests),
		asks:     make(chan neighborID, maxAsked),
		asked:    map[neighborID]struct{}{},
		stop:     make(chan struct{}),
	}, nil
}

func (r *resolver) start() { r.running.Go(r.run) }

func (r *resolver) run() {
	for {
		select {
		case n := <-r.asks:
			// Fails for a deleted link or a full neighbor table; the next request retries.
			_ = r.conn.UseNeighbor(n.link, n.addr)
		case <-r.stop:
			return
		}
	}
}

// ask requests a neighbor unless it was requested in this window or the window is full. It
// does not block.
func (r *resolver) ask(n neighborID) bool {
	if _, ok := r.asked[n]; ok || len(r.asked) >= maxAsked {
		return false
	}
	select {
	case r.asks <- n:
		r.asked[n] = struct{}{}
		return true
	default:
		return false
	}
}

func (r *resolver) nextWindow() { clear(r.asked) }

// forget permits another request for a resolved neighbor in this window, should it fail again.
func (r *resolver) forget(n neighborID) { delete(r.asked, n) }

func (r *resolver) close() error {
	select {
	case <-r.stop:
		return nil
	default:
	}
	close(r.stop)
	r.running.Wait()
	return r.conn.Close()
}

// Resolve requests the neighbor of an unresolved adjacency for packets to dst. Any goroutine
// may call it. It does not block, and may be called for every packet: a neighbor is requested
// at most once per second, and excess requests are discarded. The result is a change of the FIB.
func (m *Mirror) Resolve(adjacency uint32, dst netip.Addr) {
	select {
	case m.resolver.requests <- request{adjacency, dst.Unmap()}:
	default:
	}
}

func (m *Mirror) resolve(r request) {
	a := m.adjacencyByID[r.adjacency]
	if a == nil {
		return // freed meanwhile
	}
	n := a.to
	if !n.addr.IsValid() {
		n.addr = r.dst
	}
	if entry := m.neighbors[n]; entry != nil && entry.usable() || !n.addr.IsValid() || n.addr.IsMulticast() {
		return
	}
	m.resolver.ask(n)
}

// refresh makes Linux probe stale neighbors in use: it does not see forwarded packets, so it
// would not detect that a neighbor moved or failed.
func (m *Mirror) refresh(now time.Time) {
	checked := 0
	for id, n := range m.neighbors {
		if n.state&unix.NUD_STALE == 0 || now.Sub(n.since) < m.resolver.opts.refreshStale || m.adjacencies[id] == nil {
			continue
		}
		if checked++; checked > maxChecked || !m.resolver.ask(id) {
			return
		}
		n.since = now
	}
}
