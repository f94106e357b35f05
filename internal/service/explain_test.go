package service

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/umem"
)

// noRoutes is an empty mirror.
type noRoutes struct{}

func (noRoutes) LookupFrom(int, netip.Addr) (r mirror.RouteInfo, found bool) { return r, false }
func (noRoutes) Adjacency(uint32, netip.Addr) (n mirror.NeighborInfo, found bool) {
	return n, false
}

// tracedEngine is an engine whose decisions are explained.
type tracedEngine struct {
	*explainer
	mem    []byte
	engine *cpu.Engine
	adj    uint32
}

func newTraced(t *testing.T, g *gateway.Gateway) *tracedEngine {
	t.Helper()
	f := fib.New(1)
	f.SetPort(0, 2, 1500)
	adj, _ := f.NewAdjacency(0)
	f.SetAdjacency(adj, 0, 0xaabbccddeeff)
	id, _ := f.NewNextHop(fib.KindForward, fib.Path{Adjacency: adj, Weight: 1})
	require.NoError(t, f.IPv4.Insert(netip.MustParsePrefix("10.0.0.0/8"), id))
	e := &tracedEngine{mem: make([]byte, 4*umem.FrameSize), adj: adj}
	e.engine = cpu.New(f, e.mem, []bool{false})
	with := func(func(*gateway.Gateway)) {}
	if g != nil {
		e.engine.Secure(g, 0)
		with = func(f func(*gateway.Gateway)) { f(g) }
	}
	e.explainer = newExplainer(f, noRoutes{}, func(int) string { return "lan0" }, with)
	e.explainer.engine, e.queue = func() string { return "cpu" }, func(*dataplane.Record) int { return 0 }
	return e
}

// decide lets the engine decide on a frame and returns the record that a worker would make.
func (e *tracedEngine) decide(frame []byte) *dataplane.Record {
	c := &batch.Chunk{N: 1, In: make([]batch.Frame, 1), Out: make([]batch.Result, 1)}
	const at = umem.DataOffset
	c.In[0] = batch.Frame{Addr: at, Len: uint16(copy(e.mem[at:], frame))}
	e.engine.Submit(c)
	r := &dataplane.Record{Point: dataplane.Decided, Len: len(frame), Data: frame}
	d, left := &r.Decision, c.In[0]
	d.Result, d.Packets = c.Out[0], 1
	if d.Result.Verdict.Action() == batch.ActionForward {
		left.Addr, left.Len = d.Result.Addr(), d.Result.Len()
	}
	d.Moved = left.Addr != at
	d.Dropped, d.Reason = d.Result.Verdict.Action() == batch.ActionDrop, d.Result.Verdict.Reason()
	d.After = bytes.Clone(e.mem[left.Addr : int(left.Addr)+int(left.Len)])
	return r
}

func TestTraceReportsTablesThatHaveChanged(t *testing.T) {
	e := newTraced(t, nil)
	r := e.decide(testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2))
	if x := e.explain(r); x.Changed != "" || x.Verdict != "forward" || x.Egress != "lan0" || x.NextHop.Adjacency != e.adj {
		t.Errorf("unchanged tables: %+v", x)
	}
	for want, change := range map[string]func(){
		"forwarded by lan0 to 02:00:00:00:00:01": func() { e.fib.SetAdjacency(e.adj, 0, 0x020000000001) },
		"queued for its neighbor":                func() { e.fib.SetAdjacency(e.adj, 0, 0) },
		"dropped as port_down":                   func() { e.fib.SetPort(0, 2, 0) },
		"dropped as mtu_exceeded":                func() { e.fib.SetPort(0, 2, 20) },
		"mtu_exceeded":                           func() { e.fib.SetNextHopMTU(e.fib.IPv4.Lookup(0x0a010001), 20) },
	} {
		e.fib.SetNextHopMTU(e.fib.IPv4.Lookup(0x0a010001), 0)
		e.fib.SetPort(0, 2, 1500)
		e.fib.SetAdjacency(e.adj, 0, 0xaabbccddeeff)
		change()
		if x := e.explain(r); !strings.HasSuffix(x.Changed, want) {
			t.Errorf("%q, want %q", x.Changed, want)
		}
	}
	e.fib.IPv4.Delete(netip.MustParsePrefix("10.0.0.0/8"))
	if x := e.explain(r); !strings.HasSuffix(x.Changed, "dropped as no_route") {
		t.Errorf("%q after the route was deleted", x.Changed)
	}
}

// A packet that Linux got has a verdict of its own; one that it did not get is dropped.
func TestTraceNamesExits(t *testing.T) {
	e := newTraced(t, nil)
	hop, err := e.fib.NewNextHop(fib.KindNoPort)
	require.NoError(t, err)
	require.NoError(t, e.fib.IPv4.Insert(netip.MustParsePrefix("10.2.0.0/16"), hop))
	r := e.decide(testutil.UDP4("192.0.2.1", "10.2.0.1", 1, 2))
	if x := e.explain(r); x.Verdict != "drop" || x.Reason != "no_port" || x.Changed != "" {
		t.Errorf("%+v", x)
	}
	r.Decision.Dropped = false
	if x := e.explain(r); x.Verdict != "to linux" || x.NextHop == nil || x.Changed != "" {
		t.Errorf("%+v", x)
	}
}

func TestTraceNamesPolicyAndSA(t *testing.T) {
	end := func(d ipsec.Direction) *tracedEngine {
		g := &gateway.Gateway{}
		sa, err := ipsec.NewSA(ipsec.Config{
			Name: "to-branch", SPI: 0x1234, Direction: d, Src: netip.MustParseAddr("198.51.100.1"), Dst: netip.MustParseAddr("10.1.9.9"),
			Suite: "aes128gcm16", Key: bytes.Repeat([]byte{7}, 20), ReplayWindow: 64, Tunnel: g.Tunnel("to-branch"),
		}, 1)
		require.NoError(t, err)
		require.NoError(t, g.Add(sa))
		protect := policy.Policy{Src: netip.MustParsePrefix("192.0.2.0/24"), Dst: netip.MustParsePrefix("10.1.0.0/16"), Action: policy.Protect}
		discard := policy.Policy{Src: netip.MustParsePrefix("0.0.0.0/0"), Dst: netip.MustParsePrefix("10.5.0.0/16"), Action: policy.Discard}
		other := policy.Policy{Src: discard.Src, Dst: netip.MustParsePrefix("10.6.0.0/16"), Action: policy.Discard}
		require.NoError(t, g.SetRules([]gateway.Rule{
			{Direction: 1 - d, Policy: other}, {Direction: d, Policy: discard}, {Name: "to-branch", Direction: d, Policy: protect},
		}))
		return newTraced(t, g)
	}
	a, b := end(ipsec.Out), end(ipsec.In)
	out := a.decide(testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2, 3, 4))
	const rule = "3: 192.0.2.0/24 to 10.1.0.0/16 protect to-branch"
	if x := a.explain(out); x.Verdict != "forward" || x.IPsec.EncryptedBy != "to-branch" || x.IPsec.EncryptedSPI != 0x1234 || x.IPsec.DecryptedBy != "" ||
		!strings.HasPrefix(x.IPsec.Outbound, "3: ") || !strings.HasSuffix(x.IPsec.Outbound, " to-branch") || x.Destination.String() != "10.1.9.9" {
		t.Errorf("sealed: %+v, %+v, want policy %s", x, x.IPsec, rule)
	}
	in := b.decide(bytes.Clone(out.Decision.After))
	if x := b.explain(in); x.Verdict != "forward" || x.IPsec.DecryptedBy != "to-branch" || x.IPsec.EncryptedBy != "" || !strings.HasPrefix(x.IPsec.Inbound, "3: ") ||
		x.Destination.String() != "10.1.0.1" || !strings.HasPrefix(x.Packet, "ESP 198.51.100.1 > 10.1.9.9") {
		t.Errorf("opened: %+v, %+v", x, x.IPsec)
	}
	if x := a.explain(a.decide(testutil.UDP4("192.0.2.1", "10.5.0.1", 1, 2))); x.Reason != "xfrm_out_pol_block" || !strings.HasPrefix(x.IPsec.Outbound, "2: ") || x.Destination.IsValid() {
		t.Errorf("discarded: %+v, %+v", x, x.IPsec)
	}
	b.fib.SetRPF(0, fib.RPF{IPv4: fib.RPFLoose}) // no route leads to 198.51.100.1
	if x := b.explain(b.decide(in.Data)); x.Reason != "reverse_path" || x.IPsec != nil || x.Destination.IsValid() {
		t.Errorf("reverse path check failed: %+v, %+v", x, x.IPsec)
	}
}

func TestTraceAcceptsAnyFrameCutAnywhere(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	e, g := newTraced(t, nil), newTraced(t, &gateway.Gateway{})
	frames := [][]byte{
		testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2, 3, 4), testutil.UDP6("2001:db8::1", "2001:db8::2", 1, 2, 3, 4),
	}
	for range 3000 {
		f := bytes.Clone(frames[r.IntN(len(frames))])
		for range r.IntN(4) {
			f[12+r.IntN(len(f)-12)] = byte(r.Uint32())
		}
		f = f[:r.IntN(len(f)+1)]
		for _, e := range []*tracedEngine{e, g} {
			rec := e.decide(f)
			rec.Data = rec.Data[:r.IntN(len(rec.Data)+1)]
			rec.Decision.After = rec.Decision.After[:r.IntN(len(rec.Decision.After)+1)]
			require.NoError(t, status.WriteTrace(new(bytes.Buffer), e.explain(rec)))
		}
	}
}
