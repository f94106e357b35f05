//go:build gpu

package cuda

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

// TestGPUPartition checks that a kernel runs on the multiprocessors of its partition alone, with code
// of the primary context.
func TestGPUPartition(t *testing.T) {
	c := gpu(t)
	parts, remaining, err := c.Device().Split(2, 16)
	if c.drv.Version() < c.drv.cuDeviceGetDevResource.abi {
		failsWith(t, err, "update the driver")
		return
	}
	require.NoError(t, err)
	whole := got(c.Device().Attribute(Multiprocessors))(t)
	if len(parts) != 2 || parts[0].Multiprocessors() < 16 || 2*parts[0].Multiprocessors()+remaining.Multiprocessors() > whole {
		t.Fatalf("%d parts of %d and %d remaining, of %d", len(parts), parts[0].Multiprocessors(), remaining.Multiprocessors(), whole)
	}
	fn := kernel(t, c, "stay")
	taken := map[int]bool{}
	for _, part := range append(parts, remaining) {
		green := got(part.NewContext())(t)
		defer green.Close()
		require.NoError(t, green.Do(func() error {
			s := got(green.NewStream(0))(t)
			defer s.Close()
			seen := words(t, green, make([]uint32, 256)...)
			l := got(NewLaunch(fn, &stayParams{Seen: seen.Ptr(), Cycles: 100_000}))(t)
			l.Grid, l.Block = Dim{X: uint32(4 * whole)}, Dim{X: 1024}
			require.NoError(t, l.Enqueue(s))
			require.NoError(t, s.Synchronize())
			b := make([]byte, 4*256)
			require.NoError(t, seen.Read(0, b))
			n := 0
			for sm := range 256 {
				if b[4*sm] != 0 {
					n++
					if taken[sm] {
						t.Errorf("multiprocessor %d is in two partitions", sm)
					}
					taken[sm] = true
				}
			}
			if n != part.Multiprocessors() {
				t.Errorf("ran on %d multiprocessors, the partition has %d", n, part.Multiprocessors())
			}
			return nil
		}))
	}
}

// TestGPUPartitionOfThePrimaryContext checks that kernels of its streams run on the partition alone,
// launched by several threads, and that they use memory of the primary context.
func TestGPUPartitionOfThePrimaryContext(t *testing.T) {
	c := gpu(t)
	parts, _, err := c.Device().Split(1, 16)
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	require.NoError(t, err)
	limited, err := parts[0].Retain()
	if c.drv.Version() < c.drv.cuGreenCtxStreamCreate.abi {
		failsWith(t, err, "update the driver")
		return
	}
	require.NoError(t, err)
	whole := got(c.Device().Attribute(Multiprocessors))(t)
	fn := kernel(t, c, "stay")
	host := pinned(t, c, 4*256)
	var threads sync.WaitGroup
	for range 4 {
		threads.Go(func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			if err := limited.Bind(); err != nil {
				t.Error(err)
				return
			}
			s, err := limited.NewStream(0)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			l, err := NewLaunch(fn, &stayParams{Seen: host.Ptr(), Cycles: 100_000})
			if err != nil {
				t.Error(err)
				return
			}
			l.Grid, l.Block = Dim{X: uint32(4 * whole)}, Dim{X: 1024}
			if err := errors.Join(l.Enqueue(s), s.Synchronize()); err != nil {
				t.Error(err)
			}
		})
	}
	threads.Wait()
	n := 0
	for sm := range 256 {
		if binary.LittleEndian.Uint32(host.Bytes()[4*sm:]) != 0 {
			n++
		}
	}
	if n != parts[0].Multiprocessors() {
		t.Errorf("ran on %d multiprocessors, the partition has %d", n, parts[0].Multiprocessors())
	}
	require.NoError(t, limited.Close())
}

// TestGPUSharing checks the mode against the MPS control daemon of this host.
func TestGPUSharing(t *testing.T) {
	c := gpu(t)
	s := got(c.Device().Sharing())(t)
	t.Logf("%+v, %d multiprocessors", s, got(c.Device().Attribute(Multiprocessors))(t))
	if s.Mode == MPS && !mpsDaemon() || s.Mode == TimeSlicing && mpsDaemon() {
		t.Errorf("%+v, MPS control daemon: %v", s, mpsDaemon())
	}
}

// TestGPUBesideAResidentKernel runs the calls that a router makes while a kernel is resident. None may
// wait for its end.
func TestGPUBesideAResidentKernel(t *testing.T) {
	c := gpu(t)
	var s *Stream
	long := stream(t, c)
	h := pinned(t, c, 4096)
	more := got(unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS))(t)
	m := got(c.Load([]byte(ptx)))(t)
	t.Cleanup(func() { m.Close() })
	mem := words(t, c, make([]uint32, 256)...)
	stay := got(NewLaunch(got(m.Function("stay"))(t), &stayParams{Seen: mem.Ptr(), Cycles: 2_000_000_000}))(t) // a second
	stay.Grid, stay.Block = Dim{X: 1}, Dim{X: 1}
	require.NoError(t, stay.Enqueue(long))

	var (
		add        *Launch
		event      *Event
		allocated  *Memory
		registered *HostMemory
		err        error
	)
	for _, step := range []struct {
		name string
		call func() error
	}{
		{"make a stream", func() error { s, err = c.NewStream(0); return err }},
		{"make an event", func() error { event, err = c.NewEvent(EventDefault); return err }},
		{"find a function", func() error {
			fn, err := m.Function("add")
			if err == nil {
				add, err = NewLaunch(fn, &addParams{A: h.Ptr(), B: h.Ptr(), Sum: h.Ptr(), N: 1})
				add.Grid, add.Block = Dim{X: 1}, Dim{X: 32}
			}
			return err
		}},
		{"launch", func() error { return errors.Join(add.Enqueue(s), s.Synchronize()) }},
		{"copy to the device", func() error { return errors.Join(s.CopyToDevice(mem.Ptr(), h, 0, 64), s.Synchronize()) }},
		{"copy to the host", func() error { return errors.Join(s.CopyToHost(h, 64, mem.Ptr(), 64), s.Synchronize()) }},
		{"fill", func() error { return errors.Join(s.Fill(mem.Ptr(), 0, 64), s.Synchronize()) }},
		{"fill words", func() error { return errors.Join(s.Fill32(mem.Ptr(), 0, 16), s.Synchronize()) }},
		{"record", func() error { return errors.Join(event.Record(s), event.Synchronize()) }},
		{"read", func() error { return mem.Read(0, make([]byte, 64)) }},
		{"write", func() error { return mem.Write(0, make([]byte, 64)) }},
		{"allocate", func() error { allocated, err = c.Alloc(1 << 20); return err }},
		{"register", func() error { registered, err = c.Register(more); return err }},
		{"close an event", func() error { return event.Close() }},
		{"close a stream", func() error { return s.Close() }},
	} {
		begin := time.Now()
		if err := step.call(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if took := time.Since(begin); took > 100*time.Millisecond || got(long.Done())(t) {
			t.Errorf("%s waited for the resident kernel: %v", step.name, took)
			require.NoError(t, stay.Enqueue(long)) // for the next step
		}
	}
	require.NoError(t, long.Synchronize())
	require.NoError(t, allocated.Close())
	require.NoError(t, registered.Close())
	require.NoError(t, unix.Munmap(more))
}

func TestGPUThreadWithoutContext(t *testing.T) {
	c := gpu(t)
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		_, err := c.Alloc(4096)
		failed <- err
	}()
	failsWith(t, <-failed, "CUDA_ERROR_INVALID_CONTEXT, 201", "call Context.Bind")
}

// TestGPUFault runs in a process of its own: a fault is sticky.
func TestGPUFault(t *testing.T) {
	if os.Getenv("CUDA_TEST_FAULT") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestGPUFault$", "-test.v")
		cmd.Env = append(os.Environ(), "CUDA_TEST_FAULT=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	c := gpu(t)
	s := got(c.NewStream(0))(t)
	l := got(NewLaunch(got(got(c.Load([]byte(ptx)))(t).Function("stray"))(t), &struct{}{}))(t)
	l.Grid, l.Block = Dim{X: 1}, Dim{X: 1}
	require.NoError(t, l.Enqueue(s))
	err := s.Synchronize()
	failsWith(t, err, "synchronize a stream: cuStreamSynchronize(stream=", "CUDA_ERROR_ILLEGAL_ADDRESS, 700", lost)
	if !Sticky(err) {
		t.Error("Sticky is false")
	}
	if _, err := c.Alloc(4096); !Sticky(err) {
		t.Errorf("the context still works: %v", err)
	}
	require.NoError(t, c.Close())
	if _, err := c.Device().Retain(); !Sticky(err) {
		t.Errorf("a new context can be made, so the error is not sticky: %v", err)
	}
}
