package mirror

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// TestRandomMessages applies messages in an order that Linux would not send, and checks references
// and FIB.
func TestRandomMessages(t *testing.T) {
	s, r := newState(t), randomMessages{rand.New(rand.NewPCG(1, 2))}
	for n := range 15_000 {
		r.apply(s)
		if n%50 == 49 {
			s.writeChanges()
			if n%500 == 499 {
				checkState(t, s)
			}
		}
		if t.Failed() {
			t.Fatalf("after %d messages", n)
		}
	}
	checkNothingLeft(t, s)
}

type randomMessages struct{ *rand.Rand }

func (r randomMessages) addr(v6 bool) netip.Addr {
	if v6 {
		return netip.AddrFrom16([16]byte{0xfd, 1: byte(r.IntN(2)), 15: byte(r.IntN(8))})
	}
	return netip.AddrFrom4([4]byte{20, byte(r.IntN(2)), 0, byte(r.IntN(8))})
}

func (r randomMessages) path(v6 bool) rtnl.Path {
	p := rtnl.Path{Index: 1 + r.IntN(3), Weight: uint16(1 + r.IntN(3))}
	if r.IntN(2) == 0 {
		p.Gateway = r.addr(v6)
	}
	return p
}

func (r randomMessages) route() *rtnl.Route {
	v6 := r.IntN(2) == 0
	m := &rtnl.Route{Family: unix.AF_INET, Table: unix.RT_TABLE_MAIN, Type: uint8(1 + r.IntN(9)), Metric: uint32(r.IntN(3))}
	if v6 {
		m.Family = unix.AF_INET6
	}
	ip := r.addr(v6)
	m.Dst, _ = ip.Prefix([]int{0, 8, 15, 16, 29, 31, 32, 64, 127, 128}[r.IntN(10)] * ip.BitLen() / 128)
	if r.IntN(4) != 0 {
		m.Type = unix.RTN_UNICAST
	}
	if m.Type == unix.RTN_LOCAL {
		m.Table = unix.RT_TABLE_LOCAL
	}
	for range 1 + r.IntN(3)*r.IntN(2) {
		m.Paths = append(m.Paths, r.path(v6))
	}
	m.Multipath = len(m.Paths) > 1
	if r.IntN(5) == 0 {
		m.NexthopID = uint32(1 + r.IntN(6))
	}
	if r.IntN(5) == 0 {
		m.PrefSrc = r.addr(v6)
	}
	if r.IntN(5) == 0 {
		m.MTU = uint32(1 + r.IntN(2)*1400)
	}
	return m
}

func (r randomMessages) apply(s *state) {
	switch n := r.IntN(100); {
	case n < 45:
		s.addRoute(r.route(), []uint16{unix.NLM_F_CREATE, unix.NLM_F_CREATE | unix.NLM_F_EXCL, unix.NLM_F_CREATE | unix.NLM_F_APPEND, unix.NLM_F_REPLACE, unix.NLM_F_MULTI}[r.IntN(5)])
	case n < 70:
		s.deleteRoute(r.route())
	case n < 85:
		ip := r.addr(r.IntN(2) == 0)
		m := &rtnl.Neighbor{Family: unix.AF_INET, Index: 1 + r.IntN(3), Addr: ip, State: 1 << r.IntN(8), Address: [6]byte{2, 5: byte(r.IntN(4))}}
		if ip.Is6() {
			m.Family = unix.AF_INET6
		}
		s.setNeighbor(m, r.IntN(4) == 0)
	case n < 94:
		m := &rtnl.NexthopObject{ID: uint32(1 + r.IntN(6)), Path: r.path(r.IntN(2) == 0), Blackhole: r.IntN(6) == 0}
		if m.ID > 4 {
			m.Group = []rtnl.Member{{ID: uint32(1 + r.IntN(4)), Weight: 1}, {ID: uint32(1 + r.IntN(4)), Weight: 2}}
		}
		if r.IntN(3) == 0 {
			s.deleteObject(m.ID)
		} else {
			s.setObject(m)
		}
	case n < 98:
		s.setTestLink(1+r.IntN(3), r.IntN(3) != 0)
	case n < 99:
		s.deleteLink(1 + r.IntN(3))
	default:
		s.main.dirty[r.IntN(2)] = dirty{all: true} // as after many changes
	}
}

// FuzzMessages applies arbitrary bytes as messages.
func FuzzMessages(f *testing.F) {
	f.Add([]byte{unix.RTM_NEWROUTE, 0, 0, 12, unix.AF_INET, 8, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0})
	f.Add([]byte{unix.RTM_NEWNEIGH, 0, 0, 20, unix.AF_INET, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 8, 0, 1, 0, 10, 0, 0, 9})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := newState(t)
		for n := 0; len(data) >= 4; n++ {
			msg := rtnl.Message{Type: uint16(data[0]), Flags: binary.LittleEndian.Uint16(data[1:])}
			size := min(int(data[3]), len(data)-4)
			msg.Data, data = data[4:4+size], data[4+size:]
			_ = s.handle(msg)
		}
		s.writeChanges()
		checkState(t, s)
		checkNothingLeft(t, s)
	})
}
