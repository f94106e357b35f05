package page

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/hist"
	"github.com/warproute/warproute/internal/require"
)

// router is a source whose counters grow with every snapshot.
type router struct {
	snapshots atomic.Int64
	ending    chan struct{}
	portName  string
	varies    bool // rates vary with time
}

func newRouter() *router { return &router{ending: make(chan struct{}), portName: "lan0"} }

func (r *router) source() Source {
	return Source{Version: "v9.9.9", Snapshot: r.snapshot, Ending: r.ending}
}

func (r *router) snapshot() *status.Snapshot {
	n := uint64(r.snapshots.Add(1))
	wave := uint64(0)
	if r.varies {
		wave = uint64(2_000_000 * (1 - math.Cos(float64(n)/7)))
	}
	var times, packets hist.Histogram
	times.Record(20_000, n)
	packets.Record(100, n)
	lan, wan := dataplane.PortStats{RxPackets: 1_200_000*n + wave, RxBytes: 120_000_000*n + 80*wave, TxPackets: 5 * n}, dataplane.PortStats{TxPackets: 1_199_000*n + wave, TxBytes: 119_900_000*n + 90*wave}
	lan.Drops[batch.NoRoute] = 1000 * n
	s := &status.Snapshot{
		Ports:  []status.PortState{{Name: r.portName, Mode: "native", MTU: 1500, Up: true}, {Name: "wan0", Mode: "zero-copy", MTU: 9000, Up: r.varies}},
		Engine: status.EngineState{Name: "cpu", Why: "no GPU was found", Cores: []int{0, 1}},
		Config: status.ConfigState{Loaded: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)},
		Stats: &dataplane.Stats{
			Ports: []dataplane.PortStats{lan, wan}, Workers: 2, Chunks: n,
			Loads: []dataplane.LoadStats{{Elapsed: time.Duration(n) * time.Second, Busy: time.Duration(n)*time.Second/4 + time.Duration(wave)*150}, {Elapsed: time.Duration(n) * time.Second}},
			Lanes: []dataplane.LaneStats{{Name: "voice", Deadline: 100 * time.Microsecond, Packets: 7}},
		},
		SAs:        []status.SA{{Name: "branch", Direction: "out", SPI: 0xc0ffee, Src: "192.0.2.1", Dst: "192.0.2.2", Suite: "aes128gcm16", Packets: 42, State: "live"}},
		RoutesIPv4: 900_000, RoutesIPv6: 200_000,
	}
	packets.AddTo(&s.Stats.Packets)
	for i := range s.Stats.Stages {
		times.AddTo(&s.Stats.Stages[i])
	}
	return s
}

// A client receives the rates of each second.
func TestStreamSendsRates(t *testing.T) {
	r := newRouter()
	server := httptest.NewServer(Handler(r.source()))
	defer server.Close()
	resp, err := http.Get(server.URL + "/events")
	require.NoError(t, err)
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("content type %q", kind)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for range 2 {
		m := next(t, lines)
		if m.Version != "v9.9.9" || m.Host == "" || m.RoutesIPv4 != 900_000 || len(m.SAs) != 1 || !m.Gateway || len(m.Lanes) != 1 {
			t.Errorf("got %+v", m)
		}
		if rate := m.Top.Ports[0].RxPackets; rate < 390_000 || rate > 1_400_000 {
			t.Errorf("%.0f packets/s, want 1,200,000 per snapshot, at most 3 seconds apart", rate)
		}
		if len(m.Drops) != 1 || m.Drops[0].Reason != "no_route" || m.Drops[0].Hint == "" {
			t.Errorf("drops %+v", m.Drops)
		}
		if l := m.Top.Load; len(l) != 2 || l[0] < 0.2 || l[0] > 0.3 || l[1] != 0 {
			t.Errorf("load %v, want 0.25 and 0", l)
		}
	}
	close(r.ending)
	for lines.Scan() {
	}
	require.NoError(t, lines.Err())
}

func next(t *testing.T, lines *bufio.Scanner) (m Message) {
	t.Helper()
	for lines.Scan() {
		if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
			require.NoError(t, json.Unmarshal([]byte(data), &m))
			return m
		}
	}
	t.Fatalf("the stream has ended: %v", lines.Err())
	return m
}

// All clients of a second share two snapshots, and further clients are refused.
func TestStreamsAreBounded(t *testing.T) {
	r := newRouter()
	server := httptest.NewServer(Handler(r.source()))
	defer server.Close()
	defer close(r.ending)
	var streams []*bufio.Scanner
	for range maxStreams {
		resp, err := http.Get(server.URL + "/events")
		require.NoError(t, err)
		defer resp.Body.Close()
		s := bufio.NewScanner(resp.Body)
		s.Buffer(nil, 1<<20)
		streams = append(streams, s)
	}
	for _, s := range streams {
		next(t, s)
	}
	if n := r.snapshots.Load(); n > 4 {
		t.Errorf("%d snapshots for %d clients in about a second", n, maxStreams)
	}
	resp, err := http.Get(server.URL + "/events")
	require.NoError(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("client %d: %s", maxStreams+1, resp.Status)
	}
}

// The first message after a break has no rates over the break.
func TestBreakIsNotAveraged(t *testing.T) {
	s := &stream{source: newRouter().source()}
	start := time.Now()
	if m := s.latest(start); m != nil {
		t.Errorf("rates of one snapshot: %s", m)
	}
	if m := s.latest(start.Add(time.Second)); m == nil {
		t.Error("no rates after a second")
	}
	if m := s.latest(start.Add(time.Minute)); m != nil {
		t.Errorf("rates over a minute: %s", m)
	}
	if m := s.latest(start.Add(61 * time.Second)); m == nil {
		t.Error("no rates a second later")
	}
}

// The page loads nothing from other hosts, changes nothing, and is not readable by other sites.
func TestPageIsIsolated(t *testing.T) {
	h := Handler(newRouter().source())
	foreign := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9.-]+\.[a-z]{2,}`)
	for _, path := range []string{"/", "/style.css", "/chart.js", "/page.js"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1:9274"+path, nil))
		if w.Code != http.StatusOK || w.Header().Get("Content-Security-Policy") != policy || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		body := strings.ReplaceAll(w.Body.String(), svgNamespace, "")
		if found := foreign.FindAllString(body, -1); len(found) > 0 || strings.Contains(body, "innerHTML") || strings.Contains(body, "style=") {
			t.Errorf("%s refers to %q, or writes markup", path, found)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "http://127.0.0.1:9274/", nil))
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	for host, want := range map[string]bool{
		"127.0.0.1:9274": true, "[::1]:9274": true, "192.0.2.1": true, "localhost:9274": true, "router1:9274": true, "router1.example.net:9274": true, "ROUTER1:9274": true,
		"evil.example:9274": false, "router1.evil.example:9274": false, "": false, "router2": false,
	} {
		if got := isOurs(host, "router1.example.net"); got != want {
			t.Errorf("Host: %q: accepted %v, want %v", host, got, want)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://evil.example/events", nil))
	if w.Code != http.StatusMisdirectedRequest {
		t.Errorf("a foreign name is answered with %d", w.Code)
	}
}

const svgNamespace = "http://www.w3.org/2000/svg"

// Many SAs do not make messages large.
func TestSAsAreBounded(t *testing.T) {
	r := newRouter()
	s := &stream{source: r.source()}
	s.source.Snapshot = func() *status.Snapshot {
		snap := r.snapshot()
		for i := range 30_000 {
			snap.SAs = append(snap.SAs, status.SA{Name: fmt.Sprint("peer", i)})
		}
		return snap
	}
	now := time.Now()
	s.latest(now)
	if m := s.latest(now.Add(interval)); len(m) == 0 || len(m) > 200_000 {
		t.Errorf("%d bytes", len(m))
	}
}
