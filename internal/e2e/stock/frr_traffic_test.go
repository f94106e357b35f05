package stock

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

// stream is a UDP flow between customers. Its packets carry its number and that of the phase.
type stream struct {
	from, source, destination string
	to                        string // namespace in which it may arrive; "": none
	conn                      net.Conn
	sent, received            [maxPhases]atomic.Uint32 // by phase
}

// maxPhases is the number of phases. Phase 0 is the time between the others.
const maxPhases = 8

const (
	streamPort     = 9000
	streamInterval = 40 * time.Millisecond // between packets of a stream
	streamMark     = 0x57525046            // in each payload
)

// traffic is streams through the router, and the packets that arrived in other namespaces than theirs.
type traffic struct {
	customers
	streams []*stream
	phase   atomic.Uint32
	mu      sync.Mutex
	wrong   []string
	stop    func()
}

// startTraffic starts streams. All links of customers are watched.
func (c customers) startTraffic() *traffic {
	c.t.Helper()
	tr := &traffic{customers: c, streams: []*stream{
		{from: "red", source: "198.51.100.2", destination: "203.0.113.2", to: "green"},
		{from: "green", source: "203.0.113.2", destination: "198.51.100.2", to: "red"},
		{from: "blue-lan", source: "10.2.0.2", destination: "203.0.113.2"},
		{from: "blue-lan", source: "10.2.0.2", destination: "198.51.100.2"},
	}}
	for _, name := range names {
		tr.streams = append(tr.streams, &stream{from: name + "-lan", source: "10.2.0.2", destination: "10.1.0.2", to: name},
			&stream{from: name, source: "10.1.0.2", destination: "10.2.0.2", to: name + "-lan"})
	}
	for i, name := range names {
		tr.watch(name, fmt.Sprintf("bond0.%d", 10*(i+1)))
		tr.watch(name+"-lan", "eth0")
	}
	for _, s := range tr.streams {
		require.NoError(c.t, c.Network[s.from].Do(func() (err error) {
			dialer := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(s.source)}}
			s.conn, err = dialer.Dial("udp", net.JoinHostPort(s.destination, strconv.Itoa(streamPort)))
			return err
		}))
	}
	ended := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(streamInterval)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
			for i, s := range tr.streams {
				phase := tr.phase.Load()
				packet := append(binary.BigEndian.AppendUint32(nil, streamMark), byte(i), byte(phase))
				if _, err := s.conn.Write(packet); err == nil { // else it has no route, or reports an ICMP error
					s.sent[phase].Add(1)
				}
			}
		}
	})
	tr.stop = sync.OnceFunc(func() {
		close(ended)
		running.Wait()
		for _, s := range tr.streams {
			s.conn.Close()
		}
	})
	c.t.Cleanup(tr.stop)
	return tr
}

// watch counts packets of streams that arrive on a link, and swallows them.
func (tr *traffic) watch(ns, link string) {
	tr.t.Helper()
	require.NoError(tr.t, tr.Network[ns].Do(func() error { // so that Linux sends no ICMP error
		conn, err := net.ListenPacket("udp4", fmt.Sprintf(":%d", streamPort))
		if err == nil {
			tr.t.Cleanup(func() { conn.Close() })
		}
		return err
	}))
	stop, err := tr.Network[ns].Listen(link, func(b []byte, out bool) {
		const payload = 14 + 20 + 8
		if out || len(b) < payload+6 || b[12] != 8 || b[13] != 0 || b[23] != unix.IPPROTO_UDP || binary.BigEndian.Uint32(b[payload:]) != streamMark || int(b[payload+4]) >= len(tr.streams) || b[payload+5] >= maxPhases {
			return
		}
		s := tr.streams[b[payload+4]]
		if s.to == ns {
			s.received[b[payload+5]].Add(1)
			return
		}
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.wrong = append(tr.wrong, fmt.Sprintf("a packet from %s to %s arrived in %s", s.from, s.destination, ns))
	})
	require.NoError(tr.t, err)
	tr.t.Cleanup(stop)
}

// during runs changes in a phase.
func (tr *traffic) during(phase int, changes func()) {
	time.Sleep(inFlight) // of packets of the previous phase
	tr.phase.Store(uint32(phase))
	changes()
	tr.phase.Store(0)
}

// check checks the streams after the traffic has stopped: none arrived elsewhere, and those from the namespaces that a phase does
// not touch lost nothing in it.
func (tr *traffic) check(phases []phase) {
	tr.t.Helper()
	for _, w := range tr.wrong {
		tr.t.Error(w)
	}
	for _, s := range tr.streams {
		if s.to == "" {
			continue
		}
		for i, p := range phases {
			sent, received := s.sent[i+1].Load(), s.received[i+1].Load()
			if sent == received && sent > 0 {
				continue
			}
			tr.t.Logf("%s: from %s to %s: %d packets of %d arrived", p.what, s.from, s.destination, received, sent)
			if slices.Contains(p.steady, s.from) {
				tr.t.Errorf("%s: from %s to %s: %d packets of %d arrived, want all", p.what, s.from, s.destination, received, sent)
			}
		}
	}
}

// inFlight is the time in which a guest with one slow processor forwards a packet.
const inFlight = pullInFlight
