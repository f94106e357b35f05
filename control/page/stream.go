package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/warproute/warproute/control/status"
)

// Message is what the page shows: rates and latencies of the last second, and counters since the start.
type Message struct {
	Host       string        `json:"host"`
	Version    string        `json:"version"`
	Top        status.Top    `json:"top"`
	Engine     status.Engine `json:"engine"`
	Ports      []status.Port `json:"ports"`
	Drops      []status.Drop `json:"drops"`
	Lanes      []status.Lane `json:"lanes"`
	Gateway    bool          `json:"gateway"` // the router terminates IPsec
	SAs        []status.SA   `json:"sas"`     // the first maxSAs
	RoutesIPv4 int           `json:"routes_ipv4"`
	RoutesIPv6 int           `json:"routes_ipv6"`
}

const (
	interval   = time.Second
	maxStreams = 16
	maxSAs     = 200
)

// stream sends messages to clients. All share one snapshot per interval.
type stream struct {
	source Source
	host   string

	mu      sync.Mutex
	streams int
	at      time.Time // of before
	before  *status.Snapshot
	message []byte // nil until two snapshots were taken one interval apart
}

func (s *stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	full := s.streams == maxStreams
	if !full {
		s.streams++
	}
	s.mu.Unlock()
	if full {
		w.Header().Set("Retry-After", "10")
		http.Error(w, fmt.Sprintf("%d pages are open already, close one", maxStreams), http.StatusServiceUnavailable)
		return
	}
	defer func() {
		s.mu.Lock()
		s.streams--
		s.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if m := s.latest(time.Now()); m != nil {
			// A client that does not read is disconnected.
			if out.SetWriteDeadline(time.Now().Add(10*interval)) != nil {
				return
			}
			if _, err := fmt.Fprintf(w, "data: %s\n\n", m); err != nil || out.Flush() != nil {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-s.source.Ending:
			return
		case <-tick.C:
		}
	}
}

// latest returns the message of the current interval, nil if rates are not known yet.
func (s *stream) latest(now time.Time) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	elapsed := now.Sub(s.at)
	if s.before != nil && elapsed < interval*9/10 {
		return s.message
	}
	snapshot := s.source.Snapshot()
	s.message = nil
	if s.before != nil && elapsed < 3*interval { // else nobody has looked for a while
		s.message, _ = json.Marshal(s.build(snapshot, elapsed)) // never fails: plain data
	}
	s.before, s.at = snapshot, now
	return s.message
}

func (s *stream) build(now *status.Snapshot, elapsed time.Duration) *Message {
	return &Message{
		Host: s.host, Version: s.source.Version, Top: status.TopOf(s.before, now, elapsed), Engine: status.EngineOf(now), Ports: status.Ports(now),
		Drops: status.Drops(now), Lanes: status.Lanes(now), Gateway: now.SAs != nil, SAs: append([]status.SA{}, now.SAs[:min(len(now.SAs), maxSAs)]...),
		RoutesIPv4: now.RoutesIPv4, RoutesIPv6: now.RoutesIPv6,
	}
}
