package mirror

import "net/netip"

// Adjacency returns the neighbor of an adjacency. For a directly connected network that is
// dst. It reports false for an unused or freed adjacency.
func (m *Mirror) Adjacency(id uint32, dst netip.Addr) (info NeighborInfo, ok bool) {
	m.do(func() {
		a := m.adjacencyByID[id]
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
