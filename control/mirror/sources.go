package mirror

import "github.com/warproute/warproute/fib"

// SetSources writes the reverse path check of a port, because the mirror is the only writer of
// the table. It does nothing after Close.
func (m *Mirror) SetSources(port int, s fib.Sources) {
	m.do(func() {
		m.fib.SetSources(uint16(port), s)
		m.fib.Bump()
	})
}
