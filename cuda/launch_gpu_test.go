//go:build gpu

package cuda

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
)

func TestGPULaunch(t *testing.T) {
	c := gpu(t)
	s := stream(t, c)
	fn := kernel(t, c, "add")
	a, b, sum := words(t, c, 1, 2, 3), words(t, c, 10, 20, 30), words(t, c, 0, 0, 7)
	p := &addParams{A: a.Ptr(), B: b.Ptr(), Sum: sum.Ptr(), N: 2}
	l := got(NewLaunch(fn, p))(t)
	l.Grid, l.Block = Dim{X: 1}, Dim{X: 32}
	require.NoError(t, l.Enqueue(s))
	require.NoError(t, s.Synchronize())
	holds(t, sum, 11, 22, 7)
	p.A, p.N = b.Ptr(), 3
	require.NoError(t, l.Enqueue(s))
	require.NoError(t, s.Synchronize())
	holds(t, sum, 20, 40, 60)

	_, err := NewLaunch(fn, &struct{ A, B, Sum, N DevicePtr }{})
	if fn.drv.Version() >= fn.drv.cuFuncGetParamInfo.abi {
		failsWith(t, err, "its parameter 3 has 4 bytes")
	}
	l.Block = Dim{X: 4096}
	failsWith(t, l.Enqueue(s), "launch kernel add: cuLaunchKernel(", "blockX=4096")
}

func TestGPUWritesHostMemory(t *testing.T) {
	c := gpu(t)
	s := stream(t, c)
	h := pinned(t, c, 4096)
	for i := range uint32(256) {
		binary.NativeEndian.PutUint32(h.Bytes()[4*i:], i)
	}
	p := &addParams{A: h.Ptr(), B: h.Ptr(), Sum: h.Ptr().Add(2048), N: 256}
	l := got(NewLaunch(kernel(t, c, "add"), p))(t)
	l.Grid, l.Block = Dim{X: 2}, Dim{X: 128}
	require.NoError(t, l.Enqueue(s))
	require.NoError(t, s.Synchronize())
	for i := range uint32(256) {
		if v := binary.NativeEndian.Uint32(h.Bytes()[2048+4*i:]); v != 2*i {
			t.Fatalf("word %d is %d, want %d", i, v, 2*i)
		}
	}
}

type stayParams struct {
	Seen   DevicePtr
	Cycles uint64
}

func TestGPUTime(t *testing.T) {
	c := gpu(t)
	s, other := stream(t, c), stream(t, c)
	least, greatest, err := c.StreamPriorities()
	require.NoError(t, err)
	if greatest >= least {
		t.Errorf("priorities from %d to %d", least, greatest)
	}
	seen := got(c.Alloc(4096))(t)
	defer seen.Close()
	start, end := got(c.NewEvent(EventDefault))(t), got(c.NewEvent(EventDefault))(t)
	defer start.Close()
	defer end.Close()
	mark := got(c.NewEvent(EventDisableTiming))(t)
	defer mark.Close()
	stay := got(NewLaunch(kernel(t, c, "stay"), &stayParams{Seen: seen.Ptr(), Cycles: 50_000_000}))(t) // 20 ms and more
	stay.Grid, stay.Block = Dim{X: 1}, Dim{X: 1}
	require.NoError(t, start.Record(s))
	require.NoError(t, stay.Enqueue(s))
	require.NoError(t, end.Record(s))
	require.NoError(t, other.Wait(end))
	require.NoError(t, mark.Record(other))
	for name, done := range map[string]func() (bool, error){"stream": s.Done, "event": end.Done, "waiting stream": other.Done} {
		if got(done())(t) {
			t.Errorf("%s is done while the kernel runs", name)
		}
	}
	require.NoError(t, mark.Synchronize())
	if !got(s.Done())(t) || !got(end.Done())(t) {
		t.Error("not done, and what waited for it is")
	}
	took := got(end.Since(start))(t)
	t.Logf("50 million cycles took %v", took)
	if took < 10*time.Millisecond || took > 500*time.Millisecond {
		t.Errorf("50 million cycles took %v", took)
	}
}

func TestGPUGraph(t *testing.T) {
	c := gpu(t)
	s := stream(t, c)
	h := pinned(t, c, 4096)
	for i := range uint32(16) {
		binary.NativeEndian.PutUint32(h.Bytes()[4*i:], i)
	}
	a, b, sum := got(c.Alloc(64))(t), words(t, c, make([]uint32, 16)...), got(c.Alloc(64))(t)
	defer a.Close()
	defer sum.Close()
	p := &addParams{A: a.Ptr(), B: b.Ptr(), Sum: sum.Ptr(), N: 16}
	l := got(NewLaunch(kernel(t, c, "add"), p))(t)
	l.Grid, l.Block = Dim{X: 1}, Dim{X: 32}
	g := got(s.Capture(func() error {
		return errors.Join(s.CopyToDevice(a.Ptr(), h, 0, 64), l.Enqueue(s), s.CopyToHost(h, 1024, sum.Ptr(), 64))
	}))(t)
	defer g.Close()
	sums := func() (v uint32) {
		require.NoError(t, g.Enqueue(s))
		require.NoError(t, s.Synchronize())
		return binary.NativeEndian.Uint32(h.Bytes()[1024+4*15:])
	}
	if v := sums(); v != 15 {
		t.Errorf("15 + 0 = %d", v)
	}
	binary.NativeEndian.PutUint32(h.Bytes()[4*15:], 100)
	if v := sums(); v != 100 {
		t.Errorf("100 + 0 = %d on the second replay", v)
	}
	p.B = a.Ptr()
	require.NoError(t, g.Update(l))
	if v := sums(); v != 200 {
		t.Errorf("100 + 100 = %d after an update", v)
	}
}

func TestGPUOccupancy(t *testing.T) {
	c := gpu(t)
	fn := kernel(t, c, "add")
	registers := got(fn.Attribute(FunctionRegisters))(t)
	threads := got(fn.Attribute(FunctionMaxThreads))(t)
	blocks := got(fn.BlocksPerMultiprocessor(256, 0))(t)
	t.Logf("%d registers, %d threads a block, %d blocks of 256 a multiprocessor", registers, threads, blocks)
	if registers < 1 || threads < 256 || blocks < 1 {
		t.Error("out of range")
	}
	optin := got(c.Device().Attribute(MaxSharedPerBlockOptin))(t)
	require.NoError(t, fn.SetAttribute(MaxDynamicShared, optin))
	if n := got(fn.BlocksPerMultiprocessor(256, optin))(t); n != 1 {
		t.Errorf("%d blocks with all of the shared memory", n)
	}
}

func BenchmarkGPU(b *testing.B) {
	c := gpu(b)
	s := stream(b, c)
	e := got(c.NewEvent(EventDisableTiming))(b)
	m := words(b, c, make([]uint32, 64)...)
	l := got(NewLaunch(kernel(b, c, "add"), &addParams{A: m.Ptr(), B: m.Ptr(), Sum: m.Ptr(), N: 1}))(b)
	l.Grid, l.Block = Dim{X: 1}, Dim{X: 32}
	for _, bb := range []struct {
		name string
		call func() error
	}{
		{"launch and synchronize", func() error { return errors.Join(l.Enqueue(s), s.Synchronize()) }},
		{"launch", func() error { return l.Enqueue(s) }},
		{"record", func() error { return e.Record(s) }},
		{"query", func() error { _, err := s.Done(); return err }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, bb.call())
			}
		})
		require.NoError(b, s.Synchronize())
	}
}
