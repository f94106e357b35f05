package dataplane_test

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/lane"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/offload"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet"
)

// startWithExit starts the router with routes to 10.3.0.0/16 and fd03::/64 by no port, whose packets of a family
// may exit, and waits for n packets.
func (r *rig) startWithExit(h *host, exits, n int) *dataplane.Stats {
	r.t.Helper()
	hop := r.hop(fib.KindNoPort)
	r.config.FIB.SetExits(hop, exits)
	r.routeTo(hop, "10.3.0.0/16", "fd03::/64")
	r.config.Workers[0].Exit = h
	r.startWithReturnRoute()
	r.wait("all packets", func(s *dataplane.Stats) bool {
		return s.Ports[0].RxPackets == uint64(n) && s.Delivered+int64(s.Ports[0].Dropped()+s.Ports[1].TxPackets) == int64(n)
	})
	return r.stop()
}

// Packets without a port leave through Linux unchanged if it forwards their family.
func TestPacketsExitByLinux(t *testing.T) {
	four, six := testutil.UDP4("192.0.2.1", "10.3.0.9", 1, 2, make([]byte, 100)...), testutil.UDP6("2001:db8::1", "fd03::9", 1, 2, make([]byte, 100)...)
	padded := append(bytes.Clone(four), 1, 2, 3)
	for _, c := range []struct {
		exits int
		want  [][]byte
	}{{0, nil}, {fib.ExitIPv4, [][]byte{four, four}}, {fib.ExitIPv6, [][]byte{six}}, {fib.ExitIPv4 | fib.ExitIPv6, [][]byte{four, six, four}}, {fib.ExitTunnel, nil}} {
		r, h := newRig(t, 64), &host{}
		r.queues[0].Play([][]byte{four, six, padded}, 3)
		s := r.startWithExit(h, c.exits, 3)
		if len(h.delivered) != len(c.want) || s.Ports[0].ExitPackets != uint64(len(c.want)) || s.Ports[0].Drops[batch.NoPort] != uint64(3-len(c.want)) {
			t.Fatalf("exits %d: %d packets, %d counted, %d dropped", c.exits, len(h.delivered), s.Ports[0].ExitPackets, s.Ports[0].Drops[batch.NoPort])
		}
		for i, f := range c.want {
			if !bytes.Equal(h.delivered[i], f[packet.EthernetLen:]) {
				t.Errorf("exits %d: % x, want % x", c.exits, h.delivered[i], f[packet.EthernetLen:])
			}
		}
	}
}

// A packet that Linux does not take is counted as dropped.
func TestPacketsThatLinuxRefusesAreCounted(t *testing.T) {
	r, h := newRig(t, 64), &host{full: true}
	r.queues[0].Play([][]byte{testutil.UDP4("192.0.2.1", "10.3.0.9", 1, 2)}, 5)
	if s := r.startWithExit(h, fib.ExitIPv4, 5); s.Ports[0].Drops[batch.HostFull] != 5 || s.Delivered != 0 {
		t.Errorf("%d dropped, %d delivered", s.Ports[0].Drops[batch.HostFull], s.Delivered)
	}
}

// A worker that spends more than its share of time on packets to Linux drops some, and forwards others.
func TestTimeForLinuxIsLimited(t *testing.T) {
	const n = 40_000
	r, h := newRig(t, 8), &host{spends: time.Second} // more than there is
	r.queues[0].Play([][]byte{testutil.UDP4("192.0.2.1", "10.3.0.9", 1, 2), testutil.UDP4("192.0.2.1", "10.1.0.9", 1, 2)}, n)
	s := r.startWithExit(h, fib.ExitIPv4, n)
	if limited := s.Ports[0].Drops[batch.HostLimit]; limited == 0 || s.Delivered == 0 || limited+uint64(s.Delivered) != n/2 || s.Ports[1].TxPackets != n/2 {
		t.Errorf("%d dropped, %d delivered, %d forwarded", limited, s.Delivered, s.Ports[1].TxPackets)
	}
}

// A worker without packets between ports has all its time for Linux.
func TestTimeForLinuxIsNotLimitedAlone(t *testing.T) {
	const n = 20_000
	r, h := newRig(t, 8), &host{spends: time.Second}
	r.queues[0].Play([][]byte{testutil.UDP4("192.0.2.1", "10.3.0.9", 1, 2)}, n)
	if s := r.startWithExit(h, fib.ExitIPv4, n); s.Delivered != n {
		t.Errorf("%d of %d delivered, %d limited", s.Delivered, n, s.Ports[0].Drops[batch.HostLimit])
	}
}

// marking is an engine that changes the marks of packets.
type marking struct {
	dataplane.Engine
	marks batch.Mark
}

func (m *marking) Submit(c *batch.Chunk) {
	m.Engine.Submit(c)
	for i := range c.In[:c.N] {
		c.In[i].Origin = c.In[i].Origin.With(m.marks)
	}
}

// observing is a host that calls a function for each packet that it gets, on the worker's thread.
type observing struct {
	host
	sent func()
}

func (o *observing) Send(packets [][]byte, results []offload.Result, budget time.Duration) time.Duration {
	o.sent()
	return o.host.Send(packets, results, budget)
}

// A worker looks up routes also for the packets of a chunk that the engine has finished; until then, the FIB reuses no
// entry that they may have.
func TestFinishedChunkHoldsTheFIB(t *testing.T) {
	r := newRig(t, 64)
	sent, passed := 0, 0
	h := &observing{sent: func() {
		if sent++; r.config.FIB.Passed()() {
			passed++
		}
	}}
	hop := r.hop(fib.KindNoPort)
	r.config.FIB.SetExits(hop, fib.ExitIPv4)
	r.routeTo(hop, "10.3.0.0/16")
	r.config.Workers[0].Exit = h
	r.queues[0].Play([][]byte{testutil.UDP4("192.0.2.1", "10.3.0.9", 1, 2)}, 1)
	r.run("a packet", func(s *dataplane.Stats) bool { return s.Delivered == 1 })
	if sent != 1 || passed != 0 {
		t.Errorf("%d calls, in %d of which the FIB might reuse entries", sent, passed)
	}
	if !r.config.FIB.Passed()() {
		t.Error("the worker holds the FIB after its last chunk")
	}
}

// On a gateway, only packets that the policies admit in plaintext exit. ESP of the router and its own packets never do.
func TestProtectedPacketsDoNotExit(t *testing.T) {
	for _, c := range []struct {
		marks            batch.Mark
		gateway, answers bool
		exits            bool
	}{
		{0, false, false, true}, {0, true, true, false}, {batch.PolicyDone, true, true, false}, {batch.PolicyDone, false, false, false}, // ESP
		{batch.PolicyDone | batch.InboundChecked, true, true, true}, {batch.InboundChecked, true, true, true},
		{batch.PolicyDone | batch.InboundChecked, true, false, false}, // out of a tunnel
	} {
		r, h := newRig(t, 64), &host{}
		if c.gateway {
			r.config.ExitAnswers = func([]byte) bool { return c.answers }
		}
		r.config.Workers[0].Engine = &marking{r.engine, c.marks}
		r.queues[0].Play([][]byte{testutil.UDP4("192.0.2.1", "10.3.0.9", 1, 2)}, 1)
		if s := r.startWithExit(h, fib.ExitIPv4, 1); (s.Delivered == 1) != c.exits {
			t.Errorf("%+v: %d exit", c, s.Delivered)
		}
	}
}

// Packets that Linux sends to the router are forwarded, and never return to Linux.
func TestPacketsFromLinuxDoNotReturn(t *testing.T) {
	r, h := newRig(t, 64), &host{}
	back, on := testutil.UDP4("10.2.0.1", "10.3.0.9", 1, 2), testutil.UDP4("10.2.0.1", "10.1.0.9", 1, 2)
	h.sends = [][]byte{back[packet.EthernetLen:], on[packet.EthernetLen:]}
	hop := r.hop(fib.KindNoPort)
	r.config.FIB.SetExits(hop, fib.ExitIPv4)
	r.routeTo(hop, "10.3.0.0/16")
	r.config.Workers[0].Exit = h
	r.startWithReturnRoute()
	r.wait("the other packet", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 1 })
	if s := r.stop(); len(h.delivered) != 0 || s.Originated != 1 {
		t.Errorf("%d return, %d made", len(h.delivered), s.Originated)
	}
}

// Linux gets right checksums from ports whose senders leave them incomplete.
func TestExitsHaveCompleteChecksums(t *testing.T) {
	whole := testutil.UDP4("192.0.2.1", "10.3.0.9", 1, 2, bytes.Repeat([]byte{7}, 100)...)
	addrs := whole[packet.EthernetLen+12 : packet.EthernetLen+20]
	unfinished := testutil.Unfinished(whole, packet.EthernetLen+26, addrs, 17, 108)
	for _, partial := range []bool{true, false} {
		r, h := newRig(t, 64), &host{}
		r.config.PartialChecksums = []bool{partial, false}
		r.queues[0].Play([][]byte{unfinished}, 1)
		r.startWithExit(h, fib.ExitIPv4, 1)
		if right := bytes.Equal(h.delivered[0], whole[packet.EthernetLen:]); right != partial {
			t.Errorf("port with incomplete checksums %v: complete %v", partial, right)
		}
	}
}

// endlessHost always has a packet more.
type endlessHost struct {
	host
	packet []byte
	sent   atomic.Int64
}

func (h *endlessHost) Receive(buffers [][]byte, sizes []int) (n int, more bool) {
	for i := range buffers {
		sizes[i] = copy(buffers[i], h.packet)
	}
	h.sent.Add(int64(len(buffers)))
	return len(buffers), true
}

// The host, and interfaces that are not ports, each get about half of the places if both always have packets.
func TestHostAndExitsSharePlaces(t *testing.T) {
	for name, lanes := range map[string]*lane.Lanes{"one lane": nil, "two lanes": byDSCP(t, 2, 0)} {
		r := newRig(t, 4096)
		p := testutil.UDP4("192.0.2.9", "10.1.0.2", 1, 2)[14:]
		host, exit := &endlessHost{packet: p}, &endlessHost{packet: p}
		if lanes != nil {
			r.useLanes(lanes)
		}
		r.config.MaxPackets, r.config.Workers[0].Host, r.config.Workers[0].Exit = 64, host, exit
		r.start()
		r.wait("chunks", func(s *dataplane.Stats) bool { return s.Chunks > 3000 })
		r.stop()
		if a, b := host.sent.Load(), exit.sent.Load(); a == 0 || b < a/2 || a < b/2 {
			t.Errorf("%s: %d packets of the host, %d of other interfaces", name, a, b)
		}
	}
}
