package cpu

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// world is an engine over a small network.
type world struct {
	t      testing.TB
	net    *testutil.Network
	engine *Engine
	mem    *umem.Memory
	chunk  *batch.Chunk
}

func newWorld(t testing.TB) *world {
	mem, err := umem.New(1024)
	if err != nil {
		t.Fatal(err)
	}
	slab, err := batch.NewSlab(1, 1024)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close(); slab.Close() })
	net := testutil.NewNetwork()
	return &world{t: t, net: net, engine: New(net.FIB, mem.Bytes(), net.Repair), mem: mem, chunk: slab.Chunks[0]}
}

// submit runs frames through the engine as one chunk, all from one port.
func (w *world) submit(port uint16, frames ...[]byte) []batch.Result {
	for i, f := range frames {
		addr := uint32(i)*umem.FrameSize + umem.DataOffset
		copy(w.mem.Bytes()[addr:], f)
		w.chunk.In[i] = batch.Frame{Addr: addr, Len: uint16(len(f)), Port: port}
		w.chunk.Out[i] = batch.Result{Verdict: 0xffff}
	}
	w.chunk.N = len(frames)
	w.engine.Submit(w.chunk)
	return w.chunk.Out[:len(frames)]
}

func (w *world) bytes(r batch.Result) []byte { return w.mem.Bytes()[r.Addr:][:r.Len] }

func (w *world) received(i int) []byte {
	f := w.chunk.In[i]
	return w.mem.Bytes()[f.Addr:][:f.Len]
}

func to4(dst string) []byte { return testutil.UDP4("192.0.2.1", dst, 1000, 53, make([]byte, 40)...) }
func to6(dst string) []byte { return testutil.UDP6("2001:db8::1", dst, 1000, 53, make([]byte, 40)...) }

func TestVerdicts(t *testing.T) {
	v4, v6 := to4("10.1.0.9"), to6("fd01::9")
	from4 := func(src string) []byte { return testutil.UDP4(src, "10.1.0.9", 1, 2, make([]byte, 40)...) }
	from6 := func(src string) []byte { return testutil.UDP6(src, "fd01::9", 1, 2, make([]byte, 40)...) }
	big4 := testutil.UDP4("192.0.2.1", "10.2.0.9", 1, 2, make([]byte, 73)...)
	big6 := testutil.UDP6("2001:db8::1", "fd02::9", 1, 2, make([]byte, 53)...)
	fit4 := testutil.UDP4("192.0.2.1", "10.2.0.9", 1, 2, make([]byte, 72)...)
	fit6 := testutil.UDP6("2001:db8::1", "fd02::9", 1, 2, make([]byte, 52)...)
	routing0 := testutil.Edit(testutil.Edit(v6, 6, byte(packet.Routing)), 40, 17, 0, 0, 1)
	arp := bytes.Clone(v4)
	arp[12], arp[13] = 8, 6
	crossed := bytes.Clone(v6)
	crossed[12], crossed[13] = 8, 0
	crossed4 := bytes.Clone(v4)
	crossed4[12], crossed4[13] = 0x86, 0xdd
	tcp1 := testutil.Edit(v4, 6, 0, 1)
	mapped := testutil.Edit(v6, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1)
	tcp1 = testutil.Edit(tcp1, 9, 6)

	drop := batch.Drop
	for _, c := range []struct {
		name  string
		frame []byte
		want  batch.Verdict
	}{
		{"IPv4", v4, batch.Forward(1)},
		{"IPv6", v6, batch.Forward(1)},
		{"empty frame", nil, drop(batch.TooShort)},
		{"Ethernet header cut", v4[:13], drop(batch.TooShort)},
		{"Ethernet header alone", v4[:14], drop(batch.TooShort)},
		{"IPv4 header cut", v4[:33], drop(batch.TooShort)},
		{"IPv6 header cut", v6[:53], drop(batch.TooShort)},
		{"ARP", arp, drop(batch.EtherType)},
		{"IPv6 packet as IPv4", crossed, drop(batch.IPVersion)},
		{"IPv4 packet as IPv6", crossed4, drop(batch.IPVersion)},
		{"IHL of 4", testutil.Edit(v4, 0, 0x44), drop(batch.HeaderLength)},
		{"IHL beyond the packet", testutil.Edit(v4, 0, 0x4f, 0, 0, 59), drop(batch.HeaderLength)},
		{"IPv4 options", testutil.Edit(v4, 0, 0x46), drop(batch.IPOptions)},
		{"total length below the header", testutil.Edit(v4, 2, 0, 19), drop(batch.BadLength)},
		{"total length beyond the frame", testutil.Edit(v4, 2, 0, 69), drop(batch.BadLength)},
		{"payload length beyond the frame", testutil.Edit(v6, 4, 0, 49), drop(batch.BadLength)},
		{"jumbogram", testutil.Edit(v6, 4, 0, 0, 0), drop(batch.BadLength)},
		{"no payload and no next header", testutil.Edit(v6, 4, 0, 0, 59), batch.Forward(1)},
		{"header checksum", func() []byte { f := bytes.Clone(v4); f[24] ^= 1; return f }(), drop(batch.BadChecksum)},
		{"IPv4 TTL 1", testutil.Edit(v4, 8, 1), drop(batch.TTLExpired)},
		{"IPv4 TTL 0", testutil.Edit(v4, 8, 0), drop(batch.TTLExpired)},
		{"IPv4 TTL 2", testutil.Edit(v4, 8, 2), batch.Forward(1)},
		{"IPv6 hop limit 1", testutil.Edit(v6, 7, 1), drop(batch.TTLExpired)},
		{"IPv6 hop limit 0", testutil.Edit(v6, 7, 0), drop(batch.TTLExpired)},
		{"IPv6 hop limit 2", testutil.Edit(v6, 7, 2), batch.Forward(1)},
		{"from 0/8", from4("0.0.0.0"), drop(batch.SourceMartian)},
		{"from 127/8", from4("127.0.0.1"), drop(batch.SourceMartian)},
		{"from multicast", from4("224.0.0.5"), drop(batch.SourceMartian)},
		{"from 240/4", from4("240.0.0.1"), drop(batch.SourceMartian)},
		{"from broadcast", from4("255.255.255.255"), drop(batch.SourceMartian)},
		{"from link-local 169.254/16", from4("169.254.1.1"), drop(batch.SourceMartian)},
		{"to link-local 169.254/16", to4("169.254.1.1"), drop(batch.DestMartian)},
		{"from 169.253/16", from4("169.253.1.1"), batch.Forward(1)},
		{"from 1/8", from4("1.0.0.1"), batch.Forward(1)},
		{"from 223/8", from4("223.255.255.255"), batch.Forward(1)},
		{"to 0/8", to4("0.1.2.3"), drop(batch.DestMartian)},
		{"to 127/8", to4("127.0.0.1"), drop(batch.DestMartian)},
		{"to multicast", to4("239.1.1.1"), drop(batch.DestMartian)},
		{"to broadcast", to4("255.255.255.255"), drop(batch.DestMartian)},
		{"from ::", from6("::"), drop(batch.SourceMartian)},
		{"from ::1", from6("::1"), drop(batch.SourceMartian)},
		{"from IPv4-mapped", mapped, drop(batch.SourceMartian)},
		{"from ::2", from6("::2"), batch.Forward(1)},
		{"from link-local", from6("fe80::1"), drop(batch.SourceMartian)},
		{"from febf::", from6("febf::1"), drop(batch.SourceMartian)},
		{"from fec0::", from6("fec0::1"), batch.Forward(1)},
		{"from IPv6 multicast", from6("ff02::1"), drop(batch.SourceMartian)},
		{"to link-local", to6("fe80::1"), drop(batch.DestMartian)},
		{"to ::1", to6("::1"), drop(batch.DestMartian)},
		{"to IPv6 multicast", to6("ff0e::1"), drop(batch.DestMartian)},
		{"TCP fragment at offset 1", tcp1, drop(batch.FragmentOverlap)},
		{"UDP fragment at offset 1", testutil.Edit(v4, 6, 0, 1), batch.Forward(1)},
		{"type 0 routing header", routing0, drop(batch.RoutingHeader)},
		{"extension header beyond the end", testutil.Edit(testutil.Edit(v6, 6, 60), 40, 17, 200), drop(batch.ExtensionHeaders)},
		{"no route", to4("172.16.0.1"), drop(batch.NoRoute)},
		{"no IPv6 route", to6("2001:db8:ffff::1"), drop(batch.NoRoute)},
		{"port down", to4("10.3.0.1"), drop(batch.PortDown)},
		{"IPv6 port down", to6("fd03::1"), drop(batch.PortDown)},
		{"unresolved", to4("10.4.0.1"), batch.Hold},
		{"IPv6 unresolved", to6("fd04::1"), batch.Hold},
		{"local", to4("10.6.0.1"), drop(batch.LocalDelivery)},
		{"IPv6 local", to6("fd06::1"), drop(batch.LocalDelivery)},
		{"blackhole", to4("10.7.0.1"), drop(batch.Blackhole)},
		{"IPv6 blackhole", to6("fd07::1"), drop(batch.Blackhole)},
		{"unreachable", to4("10.8.0.1"), drop(batch.Unreachable)},
		{"IPv6 unreachable", to6("fd08::1"), drop(batch.Unreachable)},
		{"prohibit", to4("10.9.0.1"), drop(batch.Prohibit)},
		{"IPv6 prohibit", to6("fd09::1"), drop(batch.Prohibit)},
		{"not a port", to4("10.10.0.1"), drop(batch.NoPort)},
		{"IPv6 not a port", to6("fd0a::1"), drop(batch.NoPort)},
		{"one byte over the MTU", big4, drop(batch.MTUExceeded)},
		{"IPv6 one byte over the MTU", big6, drop(batch.MTUExceeded)},
		{"as large as the MTU", fit4, batch.Forward(2)},
		{"IPv6 as large as the MTU", fit6, batch.Forward(2)},
	} {
		w := newWorld(t)
		r := w.submit(1, c.frame)[0]
		if r.Verdict != c.want {
			t.Errorf("%s: %v, want %v", c.name, r.Verdict, c.want)
		}
		if r.Verdict.Action() != batch.ActionForward && !bytes.Equal(w.received(0), c.frame) {
			t.Errorf("%s: a frame that is not forwarded was changed", c.name)
		}
		if r.Verdict == batch.Hold && r.Addr != w.net.Glean {
			t.Errorf("%s: held for adjacency %d, want %d", c.name, r.Addr, w.net.Glean)
		}
	}
}

func TestForwardedFramesAreRewritten(t *testing.T) {
	w := newWorld(t)
	in4, in6 := to4("10.1.0.9"), to6("fd01::9")
	out := w.submit(1, in4, in6)
	for i, in := range [][]byte{in4, in6} {
		want := bytes.Clone(in)
		copy(want, []byte{2, 0, 0, 0, 0, 0xaa, 2, 0, 0, 0, 0, 0x11})
		if i == 0 {
			want = testutil.Edit(want, 8, 63)
		} else {
			want = testutil.Edit(want, 7, 63)
		}
		if got := w.bytes(out[i]); !bytes.Equal(got, want) {
			t.Errorf("packet %d:\n got  % x\n want % x", i, got, want)
		}
	}
}

func TestPaddingIsTrimmed(t *testing.T) {
	w := newWorld(t)
	v4 := testutil.UDP4("192.0.2.1", "10.1.0.9", 1, 2) // 42 bytes, padded to 60 on the wire
	v6 := append(to6("fd01::9"), 0xde, 0xad)
	out := w.submit(1, append(bytes.Clone(v4[:42]), make([]byte, 18)...), v6)
	if out[0].Len != 42 {
		t.Errorf("IPv4: %d bytes leave, want 42", out[0].Len)
	}
	if int(out[1].Len) != len(v6)-2 {
		t.Errorf("IPv6: %d bytes leave, want %d", out[1].Len, len(v6)-2)
	}
}

func TestChecksumsAreCompletedOnPortsThatNeedIt(t *testing.T) {
	for port, want := range map[uint16]bool{0: true, 1: false} {
		w := newWorld(t)
		var frames [][]byte
		for _, finished := range [][]byte{to4("10.1.0.9"), to6("fd01::9")} {
			f := bytes.Clone(finished)
			p := f[packet.EthernetLen:]
			addrs, l4 := p[12:20], 20
			if p[0]>>4 == 6 {
				addrs, l4 = p[8:40], 40
			}
			pseudo := append(bytes.Clone(addrs), 0, 17, 0, byte(len(p)-l4))
			binary.BigEndian.PutUint16(p[l4+6:], packet.Sum(pseudo))
			frames = append(frames, f)
		}
		out := w.submit(port, frames...)
		for i, finished := range [][]byte{to4("10.1.0.9"), to6("fd01::9")} {
			l4 := packet.EthernetLen + []int{20, 40}[i]
			if got := bytes.Equal(w.bytes(out[i])[l4:], finished[l4:]); got != want {
				t.Errorf("port %d, packet %d: checksum completed %v, want %v", port, i, got, want)
			}
		}
	}
}

// Flows spread over the paths of a group, and every packet of one takes the same.
func TestMultipath(t *testing.T) {
	w := newWorld(t)
	for name, frame := range map[string]func(port uint16) []byte{
		"IPv4": func(p uint16) []byte { return testutil.UDP4("192.0.2.1", "10.5.0.1", p, 53) },
		"IPv6": func(p uint16) []byte { return testutil.UDP6("2001:db8::1", "fd05::1", p, 53) },
	} {
		var frames [][]byte
		for i := range 1000 {
			frames = append(frames, frame(uint16(i/2)))
		}
		count := map[uint16]int{}
		out := w.submit(1, frames...)
		for i, r := range out {
			count[r.Verdict.Port()]++
			if r.Verdict != out[i&^1].Verdict {
				t.Fatalf("%s: flow %d takes two paths", name, i/2)
			}
		}
		if count[1] < 400 || count[2] < 400 {
			t.Errorf("%s: 500 flows over two paths: %v", name, count)
		}
	}
}

func TestSubmitDoesNotAllocate(t *testing.T) {
	w := newWorld(t)
	frames := [][]byte{to4("10.1.0.9"), to6("fd01::9"), to4("10.5.0.9"), to6("fd05::9"), to4("10.4.0.1"), to4("172.16.0.1"), nil}
	w.submit(0, frames...)
	if n := testing.AllocsPerRun(100, func() { w.engine.Submit(w.chunk) }); n != 0 {
		t.Errorf("Submit allocates %v times", n)
	}
}

// A packet's verdict does not depend on its neighbours in the chunk.
func TestPacketsDoNotDisturbEachOther(t *testing.T) {
	w := newWorld(t)
	rnd := rand.New(rand.NewPCG(4, 4))
	good := to4("10.1.0.9")
	var frames [][]byte
	for i := range 1000 {
		f := bytes.Clone(good)
		if i%2 == 1 {
			f = testutil.Mutate(rnd, [][]byte{good, to6("fd01::9")}[rnd.IntN(2)])
		}
		frames = append(frames, f)
	}
	for i, r := range w.submit(0, frames...) {
		if i%2 == 0 && r.Verdict != batch.Forward(1) {
			t.Fatalf("good packet %d among bad ones: %v", i, r.Verdict)
		}
	}
}
