package cuda

import (
	"encoding/binary"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// addParams are the parameters of the kernel "add" of the fake and of add.ptx.
type addParams struct {
	A, B, Sum DevicePtr
	N         uint32
}

// loadAdd returns the kernel "add".
func loadAdd(t testing.TB, c *Context, ptx string) *Function {
	t.Helper()
	m := got(c.Load([]byte(ptx)))(t)
	t.Cleanup(func() { m.Close() })
	return got(m.Function("add"))(t)
}

// words returns device memory with numbers.
func words(t testing.TB, c *Context, values ...uint32) *Memory {
	t.Helper()
	b := make([]byte, 0, 4*len(values))
	for _, v := range values {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	m := got(c.Alloc(len(b)))(t)
	t.Cleanup(func() { m.Close() })
	require.NoError(t, m.Write(0, b))
	return m
}

// holds checks the numbers in device memory.
func holds(t testing.TB, m *Memory, want ...uint32) {
	t.Helper()
	b := make([]byte, 4*len(want))
	require.NoError(t, m.Read(0, b))
	for i, w := range want {
		if v := binary.NativeEndian.Uint32(b[4*i:]); v != w {
			t.Errorf("word %d is %d, want %d", i, v, w)
		}
	}
}

func TestLaunchPassesCurrentParameters(t *testing.T) {
	f := openFake(t)
	c := f.context(t)
	s := got(c.NewStream(0))(t)
	a, b, sum := words(t, c, 1, 2, 3), words(t, c, 10, 20, 30), words(t, c, 0, 0, 0)
	p := &addParams{A: a.Ptr(), B: b.Ptr(), Sum: sum.Ptr(), N: 2}
	l := got(NewLaunch(loadAdd(t, c, "ptx"), p))(t)
	l.Grid, l.Block, l.Shared = Dim{X: 7, Y: 5}, Dim{X: 32, Y: 4, Z: 2}, 4096
	f.reset()

	require.NoError(t, l.Enqueue(s))
	f.expect(t, "cuLaunchKernel(0xf0, 7 5 1, 32 4 2, 4096, 0x50, params)")
	holds(t, sum, 11, 22, 0)

	p.A, p.N = b.Ptr(), 3
	require.NoError(t, l.Enqueue(s))
	holds(t, sum, 20, 40, 60)

	f.fail("cuLaunchKernel", InvalidValue)
	failsWith(t, l.Enqueue(s), "launch kernel add: cuLaunchKernel(function=240, gridX=7, gridY=5, gridZ=1, blockX=32", "invalid argument")
}

func TestLaunchChecksParameters(t *testing.T) {
	f := openFake(t)
	fn := loadAdd(t, f.context(t), "ptx")
	tests := []struct {
		name string
		make func() (*Launch, error)
		want string
	}{
		{"one too few", func() (*Launch, error) { return NewLaunch(fn, &struct{ A, B, Sum DevicePtr }{}) },
			"takes more parameters than the 3"},
		{"one too many", func() (*Launch, error) {
			return NewLaunch(fn, &struct {
				addParams struct{ A, B, Sum DevicePtr }
				N, M      uint32
			}{})
		}, "parameter 0 has 8 bytes"},
		{"a number of the wrong size", func() (*Launch, error) {
			return NewLaunch(fn, &struct {
				A, B, Sum DevicePtr
				N         uint64
			}{})
		}, "its parameter 3 has 4 bytes, struct { A cuda.DevicePtr; B cuda.DevicePtr; Sum cuda.DevicePtr; N uint64 }.N has 8"},
		{"a field after the last", func() (*Launch, error) {
			return NewLaunch(fn, &struct {
				A, B, Sum DevicePtr
				N, More   uint32
			}{})
		}, "it takes 4 parameters"},
		{"a pointer of the host", func() (*Launch, error) { return NewLaunch(fn, &struct{ A *int }{}) },
			"parameter 0, A, is a *int, which a device cannot read"},
		{"a slice within a struct", func() (*Launch, error) { return NewLaunch(fn, &struct{ A struct{ B []byte } }{}) },
			"cannot read"},
		{"an address that is a plain number", func() (*Launch, error) { return NewLaunch(fn, &struct{ A uintptr }{}) },
			"cannot read"},
		{"no struct", func() (*Launch, error) { return NewLaunch(fn, new(uint64)) }, "must be a struct, not uint64"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.make()
			failsWith(t, err, "prepare kernel add", tt.want)
		})
	}
	// A struct by value of the right size is accepted.
	got(NewLaunch(fn, &struct {
		A   struct{ Low, High uint32 }
		B   [2]uint32
		Sum float64
		N   [4]uint8
	}{}))(t)
}

func TestGraphReplaysAndUpdates(t *testing.T) {
	f := openFake(t)
	c := f.context(t)
	s := got(c.NewStream(0))(t)
	a, b, sum := words(t, c, 1, 2, 3), words(t, c, 10, 20, 30), words(t, c, 0, 0, 0)
	p := &addParams{A: a.Ptr(), B: b.Ptr(), Sum: sum.Ptr(), N: 3}
	l := got(NewLaunch(loadAdd(t, c, "ptx"), p))(t)
	l.Grid, l.Block = Dim{X: 1}, Dim{X: 32}
	f.reset()
	g := got(s.Capture(func() error { return l.Enqueue(s) }))(t)
	f.expect(t, "cuStreamBeginCapture_v2(0x50, 1)", "cuLaunchKernel(0xf0, 1 1 1, 32 1 1, 0, 0x50, params)",
		"cuStreamEndCapture(0x50)", "cuGraphInstantiateWithFlags(0x60, 0)")

	p.A = b.Ptr() // the graph keeps the recorded parameters
	require.NoError(t, g.Enqueue(s))
	f.expect(t, "cuGraphLaunch(0x80, 0x50)")
	holds(t, sum, 11, 22, 33)

	l.Grid, l.Block, l.Shared = Dim{X: 2, Y: 3}, Dim{X: 64}, 512
	f.reset()
	require.NoError(t, g.Update(l))
	f.expect(t, "cuGraphExecKernelNodeSetParams_v2(0x80, 0x72, 0xf0, 2 3 1, 64 1 1, 512)")
	require.NoError(t, g.Enqueue(s))
	holds(t, sum, 20, 40, 60)
	require.NoError(t, g.Close())
}

func TestFailedCaptureDestroysGraph(t *testing.T) {
	f := openFake(t)
	c := f.context(t)
	s := got(c.NewStream(0))(t)
	f.reset()
	f.fail("cuEventRecord", InvalidValue)
	e := got(c.NewEvent(EventDisableTiming))(t)
	_, err := s.Capture(func() error { return e.Record(s) })
	failsWith(t, err, "capture a graph: record an event: cuEventRecord(event=224, stream=80): invalid argument")
	f.expect(t, "cuEventCreate(2)", "cuStreamBeginCapture_v2(0x50, 1)", "cuEventRecord(0xe0, 0x50)", "cuStreamEndCapture(0x50)", "cuGraphDestroy(0x60)")
}
