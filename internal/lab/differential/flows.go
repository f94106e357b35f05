package differential

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// sendFlows sends flows of several packets of different sizes from lan to wan and nar.
func sendFlows(probes map[uint32]*Probe, contenders ...*Contender) {
	const flows, packets = 64, 6
	id := uint32(len(probes))
	for n := range packets {
		for flow := byte(1); flow <= flows; flow++ {
			p := &Probe{id: id, side: lanSide, flow: 2*uint16(flow) + 1}
			size, proto, net := 30+100*n, []byte{6, 17}[flow&1], 0x20+flow>>2&1 // wan or nar
			if flow%4 < 2 {
				p.ipv4Of(side4(lanSide, 2), netip.AddrFrom4([4]byte{10, net - 0x20 + 20, 1, flow}), 64, proto, size)
			} else {
				p.ipv6Of(side6(lanSide, 2), netip.AddrFrom16([16]byte{0: 0xfd, 1: net, 15: flow}), 64, proto, nil, proto, size)
			}
			probes[id] = p
			id++
			for _, c := range contenders {
				c.Send(lanSide, p.frame)
			}
		}
		for _, c := range contenders {
			c.Settle(lanSide)
		}
	}
}

// checkMembers checks that frames left only by members of bonds that Linux considers active, and by each of them.
func (c *Contender) checkMembers() {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	by := map[string]int{}
	for _, a := range c.received {
		if !linkNoise([]byte(a.bytes)) { // Linux's LACP is on every member
			by[c.sockets[a.socket].link]++
		}
	}
	for _, b := range c.bonds {
		if active := c.activeMembers(b); !slices.Equal(active, b.active) {
			c.t.Errorf("%s: the active members of the %s bond were %v and are %v", c.name, b.mode, b.active, active)
		}
		for _, m := range b.members {
			if active := slices.Contains(b.active, m); active != (by[m] > 0) {
				c.t.Errorf("%s sent %d frames by %s; members %v of the %s bond are active", c.name, by[m], m, b.active, b.mode)
			}
		}
	}
}

// checkFlows checks that each flow left by one member of a bond.
func (c *Contender) checkFlows() {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	type key struct {
		side int
		flow string
	}
	was, packets := map[key]string{}, [Sides]int{}
	for _, a := range c.received {
		flow, ok := flowOf([]byte(a.bytes))
		if !ok {
			continue
		}
		k, link := key{a.side, flow}, c.sockets[a.socket].link
		if was[k] == "" {
			was[k] = link
		} else if packets[a.side]++; was[k] != link {
			c.t.Errorf("%s sent packets of flow % x by %s and by %s", c.name, flow, was[k], link)
		}
	}
	for _, side := range []int{wanSide, narSide} {
		if packets[side] < 100 {
			c.t.Errorf("%d packets to %s belong to flows with others, too few for this test", packets[side], sides[side])
		}
	}
}

// flowOf returns addresses, protocol and ports of a plain TCP or UDP packet.
func flowOf(f []byte) (flow string, ok bool) {
	b := f[14:]
	var at, proto, addrs int
	switch etherType := binary.BigEndian.Uint16(f[12:]); {
	case etherType == 0x0800 && len(b) >= 24 && b[0] == 0x45 && b[6]&0x3f == 0 && b[7] == 0:
		at, proto, addrs = 20, 9, 12
	case etherType == 0x86dd && len(b) >= 44:
		at, proto, addrs = 40, 6, 8
	default:
		return "", false
	}
	if b[proto] != 6 && b[proto] != 17 {
		return "", false
	}
	return string(slices.Concat(b[proto:proto+1], b[addrs:at+4])), true
}
