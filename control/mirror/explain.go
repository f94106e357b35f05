package mirror

import "net/netip"

// Adjacency returns the neighbour that an adjacency of the base stands for; that of a
// directly connected network stands for dst itself. It is not ok if the adjacency is
// none, or not any more.
func (m *Mirror) Adjacency(id uint32, dst netip.Addr) (info NeighborInfo, ok bool) {
	m.do(func() {
		a := m.numbered[id]
		if a == nil {
			return
		}
		to := a.to
		if !to.addr.IsValid() {
			to.addr = dst.Unmap()
		}
		info, ok = NeighborInfo{Address: to.addr, Dev: m.devName(to.link), Port: int(a.port), State: "none", Used: true}, true
		if n := m.neighbors[to]; n != nil {
			info.State = stateName(n.state)
			if n.usable() {
				info.MAC = n.mac.String()
			}
		}
	})
	return info, ok
}
