//go:build !race

package cuda

import (
	"testing"

	"github.com/warproute/warproute/internal/require"
)

func TestHotCallsAllocateNothing(t *testing.T) {
	f := openFake(t)
	c := f.context(t)
	s, e := got(c.NewStream(0))(t), got(c.NewEvent(EventDisableTiming))(t)
	h := got(c.Register(make([]byte, 64)))(t)
	m := words(t, c, 1, 2, 3, 4)
	p := &addParams{A: m.Ptr(), B: m.Ptr(), Sum: m.Ptr(), N: 1}
	l := got(NewLaunch(loadAdd(t, c, "ptx"), p))(t)
	l.Grid, l.Block = Dim{X: 1}, Dim{X: 32}
	g := got(s.Capture(func() error { return l.Enqueue(s) }))(t)

	tests := []struct {
		name string
		call func() error
	}{
		{"launch", func() error { p.N ^= 1; return l.Enqueue(s) }},
		{"graph update", func() error { p.N ^= 1; return g.Update(l) }},
		{"graph launch", func() error { return g.Enqueue(s) }},
		{"copy to device", func() error { return s.CopyToDevice(m.Ptr(), h, 0, 16) }},
		{"copy to host", func() error { return s.CopyToHost(h, 0, m.Ptr(), 16) }},
		{"copy", func() error { return s.Copy(m.Ptr(), m.Ptr(), 0) }},
		{"fill", func() error { return s.Fill(m.Ptr(), 0, 16) }},
		{"fill words", func() error { return s.Fill32(m.Ptr(), 0, 4) }},
		{"record", func() error { return e.Record(s) }},
		{"wait for event", func() error { return s.Wait(e) }},
		{"query stream", func() error { _, err := s.Done(); return err }},
		{"query event", func() error { _, err := e.Done(); return err }},
		{"synchronize", s.Synchronize},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if n := testing.AllocsPerRun(200, func() { require.NoError(t, tt.call()) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}
