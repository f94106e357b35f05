//go:build !race

package cuda

import (
	"testing"

	"github.com/warproute/warproute/internal/require"
)

func TestHotCallsAllocateNothing(t *testing.T) {
	f := openFake(t)
	c := f.context(t)
	s := got(c.NewStream(0))(t)
	h := got(c.Register(make([]byte, 64)))(t)
	m := words(t, c, 1, 2, 3, 4)
	p := &addParams{A: m.Ptr(), B: m.Ptr(), Sum: m.Ptr(), N: 1}
	l := got(NewLaunch(loadAdd(t, c, "ptx"), p))(t)
	l.Grid, l.Block = Dim{X: 1}, Dim{X: 32}

	tests := []struct {
		name string
		call func() error
	}{
		{"launch", func() error { p.N ^= 1; return l.Enqueue(s) }},
		{"copy to device", func() error { return s.CopyToDevice(m.Ptr(), h, 0, 16) }},
		{"copy to host", func() error { return s.CopyToHost(h, 0, m.Ptr(), 16) }},
		{"copy", func() error { return s.Copy(m.Ptr(), m.Ptr(), 0) }},
		{"fill", func() error { return s.Fill(m.Ptr(), 0, 16) }},
		{"fill words", func() error { return s.Fill32(m.Ptr(), 0, 4) }},
		{"query stream", func() error { _, err := s.Done(); return err }},
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
