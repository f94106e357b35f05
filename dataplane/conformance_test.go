package dataplane_test

import (
	"bytes"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/conformance"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/packet/icmp"
	"github.com/warproute/warproute/umem"
)

// A whole router follows the conformance rules: forwarded packets, ICMP errors, fragments and neighbor
// requests.
func TestConformance(t *testing.T) {
	for _, rule := range conformance.Rules() {
		if len(rule.Cases) == 0 {
			continue
		}
		t.Run(rule.Key, func(t *testing.T) {
			r := newRuleRouter(t)
			for i, c := range rule.Cases {
				sent, drops := r.send(c.Frame, c.Port)
				if err := c.JudgeRouter(sent, drops); err != nil {
					t.Errorf("%s: %v", c.Name, err)
				}
				if c.Verdict == batch.Hold {
					if asked := <-r.asked; asked != c.Asked() {
						t.Errorf("%s: the router asks for %v, want %v", c.Name, asked, c.Asked())
					}
					if i+1 < len(rule.Cases) {
						r = newRuleRouter(t) // in which nothing waits
					}
				}
			}
		})
	}
}

// ruleRouter is a router in the network of the rules that takes one packet at a time.
type ruleRouter struct {
	t      *testing.T
	router *dataplane.Router
	ports  [conformance.Ports]*stepPort
	asked  chan netip.Addr
	before *dataplane.Stats
}

func newRuleRouter(t *testing.T) *ruleRouter {
	t.Helper()
	net, err := conformance.NewNetwork()
	require.NoError(t, err)
	mem, err := umem.New(256)
	require.NoError(t, err)
	chunks := batch.NewChunks(2, 64)
	r := &ruleRouter{t: t, asked: make(chan netip.Addr, 8)}
	pool := umem.NewPool(mem)
	var queues [][]dataplane.Queue
	for i := range r.ports {
		r.ports[i] = &stepPort{number: uint16(i), mem: mem.Bytes(), pool: pool}
		queues = append(queues, []dataplane.Queue{r.ports[i]})
	}
	plenty := icmp.Rate{PerSecond: 1e9, Burst: 1e9}
	r.router, err = dataplane.New(dataplane.Config{
		FIB: net.FIB, Ports: conformance.Ports, MaxPackets: 64, Spin: time.Hour, Limits: icmp.Limits{Global: plenty, Source: plenty},
		Unresolved: func(_ uint32, dst netip.Addr) {
			select {
			case r.asked <- dst:
			default: // asked again
			}
		},
		Workers: []dataplane.WorkerConfig{{
			CPU: affinity.Any, Memory: mem, Pool: pool, Engine: cpu.New(net.FIB, mem.Bytes(), net.PartialChecksums), Chunks: chunks, Queues: queues,
		}},
	})
	require.NoError(t, err)
	r.router.SetAddresses(0, dataplane.Addresses{IPv4: conformance.Router4, IPv6: conformance.Router6})
	require.NoError(t, r.router.Start())
	t.Cleanup(func() { r.router.Stop(); mem.Close() })
	r.before = r.router.Stats()
	return r
}

// send has the router receive a frame, and returns what left it and was dropped.
func (r *ruleRouter) send(frame []byte, port uint16) (sent [conformance.Ports][][]byte, drops [batch.NumReasons]uint64) {
	r.t.Helper()
	r.ports[port].next.Store(&frame)
	s := r.router.Stats()
	for deadline := time.Now().Add(30 * time.Second); !r.settled(s, port); s = r.router.Stats() {
		if time.Now().After(deadline) {
			r.t.Fatalf("the router does not finish with a packet: %+v", s)
		}
		time.Sleep(10 * time.Microsecond)
	}
	for i, p := range r.ports {
		sent[i], p.sent = p.sent, nil
		for reason := range drops {
			drops[reason] += s.Ports[i].Drops[reason] - r.before.Ports[i].Drops[reason]
		}
	}
	r.before = s
	return sent, drops
}

// settled reports whether the router has received a packet and has accounted for it, and
// for all that it made of it.
func (r *ruleRouter) settled(s *dataplane.Stats, port uint16) bool {
	var rx, tx, dropped uint64
	for i := range s.Ports {
		rx, tx, dropped = rx+s.Ports[i].RxPackets, tx+s.Ports[i].TxPackets, dropped+s.Ports[i].Dropped()
	}
	return s.Ports[port].RxPackets > r.before.Ports[port].RxPackets && rx+uint64(s.Originated) == tx+dropped+uint64(s.Waiting)
}

// stepPort is a port that receives the frame that it is given next.
type stepPort struct {
	number uint16
	mem    []byte
	pool   *umem.Pool
	next   atomic.Pointer[[]byte]
	sent   [][]byte // read when the router has accounted for it
	done   []uint32
}

func (p *stepPort) Receive(dst []batch.Frame) int {
	f := p.next.Swap(nil)
	if f == nil {
		return 0
	}
	addr := p.pool.Take() + umem.DataOffset
	dst[0] = batch.Frame{Addr: addr, Len: uint16(copy(p.mem[addr:], *f)), Origin: batch.From(p.number)}
	return 1
}

func (p *stepPort) Transmit(src []batch.Frame) int {
	for _, f := range src {
		p.sent = append(p.sent, bytes.Clone(p.mem[f.Addr:][:f.Len]))
		p.done = append(p.done, f.Addr)
	}
	return len(src)
}

func (p *stepPort) Reclaim() int {
	for _, addr := range p.done {
		p.pool.Put(addr)
	}
	p.done = p.done[:0]
	return 0
}

func (p *stepPort) Refill() {}
func (p *stepPort) FD() int { return -1 }
