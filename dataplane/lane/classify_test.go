package lane

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// classifier compiles lanes and returns a function for the lane of a frame.
func classifier(tb testing.TB, lanes []Lane, g *gateway.Gateway) func(frame []byte, marks batch.Mark) uint8 {
	compiled, err := Compile(lanes, g)
	require.NoError(tb, err)
	k, mem := compiled.NewClassifier(), make([]byte, umem.FrameSize)
	return func(frame []byte, marks batch.Mark) uint8 {
		var lanes [1]uint8
		n := copy(mem, frame)
		k.Classify(mem, []batch.Frame{{Len: uint16(n), Origin: batch.From(0).With(marks)}}, lanes[:])
		return lanes[0]
	}
}

func points(values ...int) (set uint64) {
	for _, v := range values {
		set |= 1 << v
	}
	return set
}

// The gateway protects 10.0.0.0/24 to 20.0.0.0/24.
func TestDefaultLanesPartPlainPacketsFromTunnels(t *testing.T) {
	of := classifier(t, Default(), tunnels(t, 1))
	udp := func(src, dst string, dport uint16) []byte {
		return testutil.UDP4(src, dst, 7, dport, 1, 2, 3, 4, 5, 6, 7, 8)
	}
	const express, bulk = 0, 1
	plain, protected := udp("192.0.2.1", "198.51.100.1", 53), udp("10.0.0.1", "20.0.0.1", 53)
	arp := bytes.Clone(plain)
	(*packet.Ethernet)(arp).SetType(0x806)
	for name, c := range map[string]struct {
		frame []byte
		marks batch.Mark
		want  uint8
	}{
		"plain":                              {plain, 0, express},
		"plain, IPv6":                        {testutil.UDP6("2001:db8::1", "2001:db8::2", 1, 2, 3, 4, 5, 6), 0, express},
		"to a tunnel":                        {protected, 0, bulk},
		"to a tunnel, DSCP EF":               {testutil.Edit(protected, 1, 46<<2), 0, bulk},
		"to a tunnel, later fragment":        {testutil.Edit(protected, 6, 0x20, 9), 0, bulk},
		"from a tunnel's network to another": {udp("10.0.0.1", "20.0.1.1", 53), 0, express},
		"ESP":                                {testutil.Edit(plain, 9, 50), 0, bulk},
		"ESP of a tunnel's network":          {testutil.Edit(protected, 9, 50), batch.PolicyDone, bulk},
		"ESP in UDP":                         {udp("192.0.2.1", "198.51.100.1", 4500), 0, bulk},
		"fragment of UDP to port 4500":       {testutil.Edit(udp("192.0.2.1", "198.51.100.1", 4500), 6, 0x20, 0), 0, express},
		"policies are done":                  {protected, batch.PolicyDone, express},
		"of this router":                     {protected, batch.Own, bulk},
		"no IP":                              {arp, 0, bulk},
		"IPv4 options":                       {testutil.Edit(plain, 0, 0x46), 0, bulk},
		"IPv6 in an IPv4 frame":              {testutil.Edit(plain, 0, 0x65), 0, bulk},
		"short":                              {plain[:37], 0, bulk},
		"empty":                              {nil, 0, bulk},
	} {
		if got := of(c.frame, c.marks); got != c.want {
			t.Errorf("%s: lane %d, want %d", name, got, c.want)
		}
	}
}

func TestLanesMatchHeaders(t *testing.T) {
	any := true
	of := classifier(t, []Lane{
		{Name: "voice", Match: []Match{{AnyProtocol: any, DSCP: points(46, 48)}}},
		{Name: "control", Match: []Match{
			{Protocol: packet.TCP, DstPorts: Range{179, 179}}, {Protocol: packet.TCP, SrcPorts: Range{179, 179}},
			{Protocol: 89}, {Protocol: packet.ICMP}, {Protocol: packet.ICMPv6}, {Protocol: packet.UDP, DstPorts: Range{3784, 3785}, DSCP: points(0)},
		}},
		{Name: "rest"},
	}, nil)
	udp6 := testutil.UDP6("2001:db8::1", "2001:db8::2", 1, 3785, 1, 2, 3, 4)
	udp, tcp := testutil.UDP4("192.0.2.1", "10.0.0.1", 1, 3784, 1, 2, 3, 4), testutil.UDP4("192.0.2.1", "10.0.0.1", 1, 179, 1, 2, 3, 4)
	tcp = testutil.Edit(tcp, 9, byte(packet.TCP))
	for name, c := range map[string]struct {
		frame []byte
		want  uint8
	}{
		"EF":                         {testutil.Edit(udp, 1, 46<<2|3), 0},
		"EF, IPv6":                   {testutil.Edit(udp6, 0, 0x6b, 0x80), 0},
		"CS6 of control":             {testutil.Edit(tcp, 1, 48<<2), 0},
		"BGP":                        {tcp, 1},
		"BGP, answer":                {testutil.Edit(testutil.Edit(tcp, 20, 0, 179), 22, 9, 9), 1},
		"BGP, first fragment":        {testutil.Edit(tcp, 6, 0x20, 0), 2},
		"OSPF":                       {testutil.Edit(udp, 9, 89), 1},
		"ICMP fragment":              {testutil.Edit(testutil.Edit(udp, 9, 1), 6, 0, 9), 1},
		"BFD":                        {udp, 1},
		"BFD, IPv6":                  {udp6, 1},
		"BFD, IPv6, after an option": {testutil.Edit(testutil.UDP6("2001:db8::1", "2001:db8::2", 1, 2, 0, 1, 14, 201, 0, 8, 0, 0), 6, 60), 2},
		"BFD with another DSCP":      {testutil.Edit(udp, 1, 8<<2), 2},
		"BFD's port of TCP":          {testutil.Edit(udp, 9, 6), 2},
		"other UDP":                  {testutil.UDP4("192.0.2.1", "10.0.0.1", 3784, 3786, 1, 2, 3, 4), 2},
		"truncated IPv6 extension":   {testutil.Edit(udp6[:58], 6, 43), 2},
	} {
		if got := of(c.frame, 0); got != c.want {
			t.Errorf("%s: lane %d, want %d", name, got, c.want)
		}
	}
}

// An entry without plain takes packets of tunnels, too, and the first lane that matches counts.
func TestFirstMatchingLaneCounts(t *testing.T) {
	of := classifier(t, []Lane{
		{Name: "a", Match: []Match{{AnyProtocol: true, Plain: true, DSCP: points(10)}, {Protocol: packet.UDP, Plain: true, DstPorts: Range{53, 53}}}},
		{Name: "b", Match: []Match{{AnyProtocol: true, DSCP: points(46)}}},
		{Name: "c", Match: []Match{{AnyProtocol: true, Plain: true}}},
		{Name: "d"},
	}, tunnels(t, 1))
	for _, c := range []struct {
		dst         string
		dport       uint16
		dscp        byte
		proto, want uint8
	}{
		{"20.0.9.1", 9, 10, 17, 0}, {"20.0.0.1", 9, 10, 17, 3}, {"20.0.9.1", 53, 0, 17, 0}, {"20.0.9.1", 53, 46, 17, 0}, {"20.0.0.1", 53, 46, 17, 1},
		{"20.0.9.1", 9, 46, 17, 1}, {"20.0.9.1", 9, 0, 17, 2}, {"20.0.0.1", 9, 0, 17, 3}, {"20.0.9.1", 9, 46, 50, 1}, {"20.0.9.1", 9, 0, 50, 3}, {"20.0.9.1", 4500, 0, 17, 3},
	} {
		f := testutil.UDP4("10.0.0.1", c.dst, 9, c.dport, 1, 2, 3, 4)
		f = testutil.Edit(testutil.Edit(f, 1, c.dscp<<2), 9, c.proto)
		if got := of(f, 0); got != c.want {
			t.Errorf("%+v: lane %d", c, got)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	match := []Match{{AnyProtocol: true}}
	many := make([]Match, maxMatches+1)
	for name, lanes := range map[string][]Lane{
		"no lanes":         {},
		"five lanes":       {{Match: match}, {Match: match}, {Match: match}, {Match: match}, {}},
		"no last lane":     {{Match: match}, {Match: match}},
		"two last lanes":   {{}, {}},
		"too many matches": {{Match: many}, {}},
	} {
		if _, err := Compile(lanes, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// testLanes are lanes with all kinds of matches.
var testLanes = [][]Lane{
	Default(),
	{{Match: []Match{{AnyProtocol: true, DSCP: points(46)}}}, {Match: []Match{{Protocol: packet.UDP, DstPorts: Range{0, 1000}}}}, {}},
	{{Match: []Match{{Protocol: packet.UDP, Plain: true}, {Protocol: packet.TCP, Plain: true, SrcPorts: Range{7, 1 << 15}}}}, {Match: []Match{{AnyProtocol: true, DSCP: points(0, 1)}}}, {}},
}

// The lane of a packet does not depend on those beside it, and any content of frames is classified, in the
// common case as by lookUp.
func FuzzClassify(f *testing.F) {
	for _, p := range [][]byte{
		testutil.UDP4("10.0.0.1", "20.0.0.1", 1, 4500, 1, 2, 3, 4), testutil.UDP6("2001:db8::1", "2001:db8::2", 1, 2, 3, 4),
		testutil.Edit(testutil.UDP4("10.0.0.1", "20.0.0.1", 1, 2, 1, 2, 3, 4), 9, 50), testutil.Edit(testutil.UDP6("2001:db8::1", "2001:db8::2", 1, 2, 3, 4), 6, 0),
	} {
		f.Add(p, uint16(0), uint8(3))
		f.Add(p[:len(p)/2], uint16(batch.PolicyDone), uint8(1))
	}
	var compiled []*Classifier
	for _, lanes := range testLanes {
		for _, g := range []*gateway.Gateway{nil, tunnels(f, 300)} {
			c, err := Compile(lanes, g)
			require.NoError(f, err)
			compiled = append(compiled, c.NewClassifier())
		}
	}
	mem := make([]byte, 64*umem.FrameSize)
	f.Fuzz(func(t *testing.T, frame []byte, marks uint16, n uint8) {
		frame = frame[:min(len(frame), umem.FrameSize)]
		rnd := rand.New(rand.NewPCG(uint64(marks), uint64(n)))
		frames := make([]batch.Frame, int(n)%64+1)
		for i := range frames { // variants of the packet: other addresses, protocols and lengths
			b := mem[i*umem.FrameSize : (i+1)*umem.FrameSize]
			size := copy(b, frame)
			if i > 0 && size > 38 {
				binary.BigEndian.PutUint16(b[26+2*rnd.IntN(6):], uint16(rnd.Uint32()))
				b[23] = []byte{6, 17, 50, 89, b[23]}[rnd.IntN(5)]
				b[15] = byte(rnd.Uint32())
			}
			frames[i] = batch.Frame{Addr: uint32(i * umem.FrameSize), Len: uint16(size), Origin: batch.From(1).With(batch.Mark(marks) & batch.PolicyDone)}
		}
		lanes := make([]uint8, len(frames))
		for _, k := range compiled {
			k.Classify(mem, frames, lanes)
			for i, f := range frames {
				if want := k.lookUp(mem[f.Addr:f.Addr+uint32(f.Len)], f.Origin); lanes[i] != want || int(want) >= len(k.All()) {
					t.Fatalf("frame %d, % x: lane %d in the block, %d by lookUp", i, mem[f.Addr:f.Addr+min(uint32(f.Len), 60)], lanes[i], want)
				}
			}
		}
	})
}

func TestClassifyDoesNotAllocate(t *testing.T) {
	mem, frames, lanes := make([]byte, 80*umem.FrameSize), make([]batch.Frame, 80), make([]uint8, 80)
	for i := range frames {
		p := testutil.UDP4("10.0.0.1", "20.0.0.1", 1, 2, 3, 4, 5, 6)
		if i%3 == 0 {
			p = testutil.UDP6("2001:db8::1", "2001:db8::2", 1, 2, 3, 4)
		}
		frames[i] = batch.Frame{Addr: uint32(i * umem.FrameSize), Len: uint16(copy(mem[i*umem.FrameSize:], p))}
	}
	for _, all := range testLanes {
		compiled, err := Compile(all, tunnels(t, 10))
		require.NoError(t, err)
		k := compiled.NewClassifier()
		if n := testing.AllocsPerRun(100, func() { k.Classify(mem, frames, lanes) }); n != 0 {
			t.Errorf("Classify allocates %v times", n)
		}
	}
}

// A flow changes its lane with the policies.
func TestLaneFollowsPolicies(t *testing.T) {
	g := tunnels(t, 1)
	of := classifier(t, Default(), g)
	f := testutil.UDP4("10.0.0.1", "20.0.0.1", 1, 2, 3, 4, 5, 6)
	if of(f, 0) != 1 {
		t.Error("the packet of a tunnel is not in bulk")
	}
	require.NoError(t, g.SetRules(nil))
	if of(f, 0) != 0 {
		t.Error("the packet is in bulk, after its policy was deleted")
	}
}
