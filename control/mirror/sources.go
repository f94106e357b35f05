package mirror

import "github.com/warproute/warproute/fib"

// SetSources writes to the base from which sources a port takes packets: not Linux's routes
// say that, but the base has one writer. It does nothing once the mirror is closed.
func (m *Mirror) SetSources(port int, s fib.Sources) {
	m.do(func() {
		m.fib.SetSources(uint16(port), s)
		m.fib.Bump()
	})
}
