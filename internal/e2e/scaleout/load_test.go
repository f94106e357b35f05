package scaleout

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

const (
	flows     = 300
	interval  = 100 * time.Millisecond // between packets of a flow
	echoPort  = 7
	firstPort = 10_000 // source port of flow 0
)

// ways are the routers by which a flow passes: from the client, and back.
type ways [2]int

const (
	out = iota
	back
)

// flow is a flow of numbered packets that the server echoes.
type flow struct {
	conn    *net.UDPConn
	next    uint32 // expected echo
	at      time.Time
	is, was ways // of the last packet; at the start of the phase

	// Since the start of the phase:
	lost, late int
	outage     time.Duration // longest time without an echo around lost packets
}

// load is the flows between the client and the server.
type load struct {
	t    *testing.T
	mu   sync.Mutex
	flow [flows]flow
	echo *net.UDPConn
	stop chan struct{}
	done sync.WaitGroup
}

// startLoad starts the flows and returns when all have passed. It records the ways at the links of
// spine and leaf to each router.
func startLoad(t *testing.T, client, server, spine, leaf *lab.Namespace) *load {
	t.Helper()
	l := &load{t: t, stop: make(chan struct{})}
	l.echo = listenUDP(t, server)
	l.done.Go(func() { serve(l.echo) })
	for i := range routers {
		l.watch(leaf, i+1, out, 0)
		l.watch(spine, i+1, back, 2)
	}
	require.NoError(t, client.Do(func() error {
		for i := range l.flow {
			conn, err := net.DialUDP("udp4", &net.UDPAddr{Port: firstPort + i}, &net.UDPAddr{IP: net.IPv4(198, 51, 100, 2), Port: echoPort})
			if err != nil {
				return err
			}
			l.flow[i].conn = conn
		}
		return nil
	}))
	for i := range l.flow {
		l.done.Go(func() { l.receive(i) })
	}
	l.done.Go(l.send)
	t.Cleanup(l.close)
	labtest.Eventually(t, 20*time.Second, "all flows pass", l.passes)
	return l
}

func (l *load) passes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.flow {
		if f.is[out] == 0 || f.is[back] == 0 || time.Since(f.at) > 2*interval {
			return false
		}
	}
	return true
}

func (l *load) close() {
	close(l.stop)
	for i := range l.flow {
		l.flow[i].conn.Close()
	}
	l.echo.Close()
	l.done.Wait()
}

// listenUDP returns the socket of the server, with room for a second of packets.
func listenUDP(t *testing.T, ns *lab.Namespace) (conn *net.UDPConn) {
	t.Helper()
	require.NoError(t, ns.Do(func() error {
		config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
			if failed := c.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20)
			}); failed != nil {
				return failed
			}
			return err
		}}
		pc, err := config.ListenPacket(context.Background(), "udp4", fmt.Sprint(":", echoPort))
		if err == nil {
			conn = pc.(*net.UDPConn)
		}
		return err
	}))
	return conn
}

func serve(conn *net.UDPConn) {
	buf := make([]byte, 64)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return // closed
		}
		_, _ = conn.WriteToUDPAddrPort(buf[:n], from)
	}
}

// watch records the router of the packets that a link receives. The port of the client is at an offset
// of the UDP header.
func (l *load) watch(ns *lab.Namespace, router, direction, offset int) {
	l.t.Helper()
	const udp = 14 + 20
	stop, err := ns.Listen(fmt.Sprint("eth", router), func(frame []byte, sent bool) {
		if sent || len(frame) < udp+8 || frame[14+9] != 17 || binary.BigEndian.Uint16(frame[udp+2-offset:]) != echoPort {
			return
		}
		if i := int(binary.BigEndian.Uint16(frame[udp+offset:])) - firstPort; i >= 0 && i < flows {
			l.mu.Lock()
			l.flow[i].is[direction] = router
			l.mu.Unlock()
		}
	})
	require.NoError(l.t, err)
	l.t.Cleanup(stop)
}

// send sends a packet of each flow per interval, a few per tick.
func (l *load) send() {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	start, n := time.Now(), 0
	var payload [4]byte
	var sent [flows]uint32
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		for due := int(time.Since(start) * flows / interval); n < due; n++ {
			i := n % flows
			binary.BigEndian.PutUint32(payload[:], sent[i])
			sent[i]++
			_, _ = l.flow[i].conn.Write(payload[:])
		}
	}
}

func (l *load) receive(i int) {
	f := &l.flow[i]
	buf := make([]byte, 64)
	for {
		n, err := f.conn.Read(buf)
		if err != nil {
			select {
			case <-l.stop:
				return
			default: // an ICMP error
				continue
			}
		}
		if n < 4 {
			continue
		}
		now, number := time.Now(), binary.BigEndian.Uint32(buf)
		l.mu.Lock()
		if number < f.next {
			f.lost, f.late = f.lost-1, f.late+1
		} else {
			if lost := int(number - f.next); lost > 0 {
				f.lost += lost
				f.outage = max(f.outage, now.Sub(f.at))
			}
			f.next, f.at = number+1, now
		}
		l.mu.Unlock()
	}
}

// begin starts a phase: the next counts are of its flows.
func (l *load) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.flow {
		f := &l.flow[i]
		f.was, f.lost, f.late, f.outage = f.is, 0, 0, 0
	}
}

// end returns the flows of the phase. A flow without an echo for a second has an outage until now.
func (l *load) end() (all []flow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.flow {
		if since := time.Since(f.at); since > time.Second {
			f.outage = max(f.outage, since)
			f.lost += int(since / interval)
		}
		all = append(all, f)
	}
	return all
}
