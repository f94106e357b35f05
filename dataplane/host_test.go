package dataplane_test

import (
	"bytes"
	"cmp"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/offload"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet"
)

// host is a fake HostQueue.
type host struct {
	mu        sync.Mutex
	sends     [][]byte
	delivered [][]byte
	full      bool
	fd        int           // to poll, if it is not 0
	polls     int           // calls of Receive
	spends    time.Duration // by each call of Send
}

func (h *host) Send(packets [][]byte, results []offload.Result, budget time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, p := range packets {
		switch {
		case h.full:
			results[i] = offload.Failed
		case budget <= 0:
			results[i] = offload.Limited
		default:
			results[i] = offload.Sent
			h.delivered = append(h.delivered, bytes.Clone(p))
		}
	}
	return h.spends
}

func (h *host) Receive(buffers [][]byte, sizes []int) (n int, more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.polls++
	for n < len(buffers) && len(h.sends) > 0 {
		sizes[n] = copy(buffers[n], h.sends[0])
		h.sends = h.sends[1:]
		n++
	}
	return n, false
}

func (h *host) FD() int { return cmp.Or(h.fd, -1) }

// startWithHost starts the router with the address 10.2.0.1, and a host whose route to 10.3.0.0/16 leaves
// by no port.
func (r *rig) startWithHost(h *host) {
	r.t.Helper()
	r.routeTo(r.hop(fib.KindLocal), "10.2.0.1/32")
	tunnel := r.hop(fib.KindNoPort)
	r.config.FIB.SetExits(tunnel, fib.ExitTunnel)
	r.routeTo(tunnel, "10.3.0.0/16")
	r.config.Workers[0].Host = h
	r.startWithReturnRoute()
}

// Packets are delivered only if the host answers by an interface that is not a port.
func TestHostInterfaceDeliversAndReceives(t *testing.T) {
	for _, full := range []bool{false, true} {
		r, h := newRig(t, 64), &host{full: full}
		byTunnel := testutil.UDP4("10.3.0.9", "10.2.0.1", 1, 2, make([]byte, 100)...)
		byPort := testutil.UDP4("192.0.2.1", "10.2.0.1", 1, 2, make([]byte, 100)...)
		sent := testutil.UDP4("10.2.0.1", "10.1.0.9", 1, 2, make([]byte, 100)...)
		h.sends = [][]byte{sent[packet.EthernetLen:], {0x45}, sent[packet.EthernetLen:]}
		r.queues[0].Play([][]byte{byTunnel, byPort}, 2)
		r.startWithHost(h)
		r.wait("what the host sent", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 2 })
		s := r.stop()
		refused := uint64(0)
		if full {
			refused = 1
		}
		if d := s.Ports[0].Drops; d[batch.LocalDelivery] != 1 || d[batch.HostFull] != refused || s.Delivered != int64(1-refused) || s.Originated != 2 {
			t.Errorf("full %v: %d and %d dropped, %d delivered, %d made", full, d[batch.LocalDelivery], d[batch.HostFull], s.Delivered, s.Originated)
		}
		if !full && (len(h.delivered) != 1 || !bytes.Equal(h.delivered[0], byTunnel[packet.EthernetLen:])) {
			t.Errorf("delivered: % x", h.delivered)
		}
		if got := r.out[1][0][packet.EthernetLen:]; !bytes.Equal(got, sent[packet.EthernetLen:]) {
			t.Errorf("forwarded:\n% x, want\n% x", got, sent[packet.EthernetLen:])
		}
	}
}

// An ICMP error about a packet of the host comes from the destination of the packet.
func TestHostLearnsPathMTU(t *testing.T) {
	r, h := newRig(t, 64), &host{}
	large := testutil.Edit(testutil.UDP4("10.2.0.1", "10.3.0.9", 1, 2, make([]byte, 1472)...), 6, 0x40)
	h.sends = [][]byte{large[packet.EthernetLen:]}
	r.config.Workers[0].Engine = &narrower{r.engine}
	r.startWithHost(h)
	r.wait("the error", func(*dataplane.Stats) bool { h.mu.Lock(); defer h.mu.Unlock(); return len(h.delivered) == 1 })
	if s := r.stop(); s.Originated != 0 || s.Delivered != 0 {
		t.Errorf("%d made, %d delivered, want none that was received", s.Originated, s.Delivered)
	}
	p := h.delivered[0]
	if !bytes.Equal(p[12:20], []byte{10, 3, 0, 9, 10, 2, 0, 1}) || p[20] != 3 || p[21] != 4 || p[26] != 5 || p[27] != 20 {
		t.Errorf("the host received % x", p)
	}
}

// narrower is an engine with an MTU of 1,300 bytes.
type narrower struct{ dataplane.Engine }

func (n *narrower) Submit(c *batch.Chunk) {
	n.Engine.Submit(c)
	for i := range c.Out[:c.N] {
		if c.In[i].Len > 1300 {
			c.Out[i] = batch.DropTooBig(1300)
		}
	}
}

// marked is an engine that marks every packet as PolicyDone, as IPsec does with fragments to reassemble.
type marked struct{ dataplane.Engine }

func (m *marked) Submit(c *batch.Chunk) {
	m.Engine.Submit(c)
	for i := range c.In[:c.N] {
		c.In[i].Origin = c.In[i].Origin.With(batch.PolicyDone)
	}
}

// No policy was applied to a fragment that may be ESP.
func TestUncheckedFragmentsAreNotDelivered(t *testing.T) {
	r, h := newRig(t, 64), &host{}
	fragment := testutil.Edit(testutil.UDP4("10.3.0.9", "10.2.0.1", 1, 4500, make([]byte, 96)...), 6, 0x20)
	r.config.Workers[0].Engine = &marked{r.engine}
	r.queues[0].Play([][]byte{fragment}, 1)
	r.startWithHost(h)
	r.wait("the fragment", func(s *dataplane.Stats) bool { return s.Delivered+int64(s.Ports[0].Drops[batch.LocalDelivery]) == 1 })
	if s := r.stop(); s.Delivered != 0 {
		t.Errorf("delivered: % x", h.delivered)
	}
}

func TestHostPacketsWithMaximumTTLAreForwarded(t *testing.T) {
	r, h := newRig(t, 64), &host{}
	four := testutil.Edit(testutil.UDP4("10.2.0.1", "10.1.0.9", 1, 2, make([]byte, 100)...), 8, 255)
	six := testutil.UDP6("fd02::1", "fd01::9", 1, 2, make([]byte, 100)...)
	six[packet.EthernetLen+7] = 255
	h.sends = [][]byte{four[packet.EthernetLen:], six[packet.EthernetLen:]}
	r.startWithHost(h)
	r.wait("both", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 2 })
	r.stop()
	if four, six := r.out[1][0][packet.EthernetLen:], r.out[1][1][packet.EthernetLen:]; four[8] != 254 || six[7] != 254 {
		t.Errorf("with %d and %d hops", four[8], six[7])
	}
}

// poll(2) returns at once for a deleted interface.
func TestDeletedHostInterfaceLetsTheWorkerSleep(t *testing.T) {
	var pipe [2]int
	require.NoError(t, unix.Pipe(pipe[:]))
	defer unix.Close(pipe[0])
	r, h := newRig(t, 64), &host{fd: pipe[0]}
	r.startWithHost(h)
	unix.Close(pipe[1])
	time.Sleep(300 * time.Millisecond)
	r.stop()
	if h.polls > 100 { // it polls every 100 µs while it is awake, and sleeps 50 ms at a time
		t.Errorf("in 300 ms it polled %d times", h.polls)
	}
}
