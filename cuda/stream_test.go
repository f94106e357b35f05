package cuda

import (
	"bytes"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
)

func TestHostMemory(t *testing.T) {
	f := openFake(t)
	c := f.context(t)
	h := got(c.Register(make([]byte, 8192)))(t)
	f.expect(t, "cuMemHostRegister_v2(8192, 3)", "cuMemHostGetDevicePointer_v2(0)")
	if h.Ptr() == 0 || len(h.Bytes()) != 8192 {
		t.Errorf("%d bytes at %#x", len(h.Bytes()), h.Ptr())
	}
	_, err := c.Register(nil)
	failsWith(t, err, "register host memory: it is empty")

	// Memory without a device address does not stay registered.
	f.fail("cuMemHostGetDevicePointer_v2", InvalidValue)
	_, err = c.Register(make([]byte, 4096))
	failsWith(t, err, "map 4096 bytes of host memory")
	f.expect(t, "cuMemHostRegister_v2(4096, 3)", "cuMemHostGetDevicePointer_v2(0)", "cuMemHostUnregister()")
}

func TestCopiesAndFills(t *testing.T) {
	f := openFake(t)
	c := f.context(t)
	s := got(c.NewStream(-3))(t)
	h := got(c.Register(make([]byte, 64)))(t)
	m := got(c.Alloc(64))(t)
	defer m.Close()
	f.reset()

	copy(h.Bytes()[8:], "in place")
	require.NoError(t, s.Fill(m.Ptr(), '.', 64))
	require.NoError(t, s.CopyToDevice(m.Ptr().Add(4), h, 8, 8))
	require.NoError(t, s.Copy(m.Ptr().Add(16), m.Ptr().Add(4), 8))
	require.NoError(t, s.Fill32(m.Ptr().Add(24), 0x21212121, 2))
	require.NoError(t, s.CopyToHost(h, 32, m.Ptr(), 32))
	f.expect(t, "cuMemsetD8Async(0x2e, 64, 0x50)", "cuMemcpyHtoDAsync_v2(8, 0x50)", "cuMemcpyDtoDAsync_v2(8, 0x50)",
		"cuMemsetD32Async(0x21212121, 2, 0x50)", "cuMemcpyDtoHAsync_v2(32, 0x50)")
	if want := "....in place....in place!!!!!!!!"; string(h.Bytes()[32:]) != want {
		t.Errorf("got %q, want %q", h.Bytes()[32:], want)
	}
	b := make([]byte, 8)
	require.NoError(t, m.Read(4, b))
	if !bytes.Equal(b, []byte("in place")) {
		t.Errorf("read %q", b)
	}
}

// TestWriteWaitsForCompletion: the driver returns before the DMA from pageable memory has ended.
func TestWriteWaitsForCompletion(t *testing.T) {
	f := openFake(t)
	m := got(f.context(t).Alloc(64))(t)
	defer m.Close()
	f.reset()
	require.NoError(t, m.Write(0, make([]byte, 64)))
	f.expect(t, "cuMemcpyHtoD_v2(64)", "cuStreamSynchronize(0)")
	f.fail("cuStreamSynchronize", InvalidValue)
	failsWith(t, m.Write(0, make([]byte, 64)), "write 64 bytes to device memory: cuStreamSynchronize(")
}

func TestCopiesCheckBounds(t *testing.T) {
	f := openFake(t)
	c := f.context(t)
	s := got(c.NewStream(0))(t)
	h := got(c.Register(make([]byte, 64)))(t)
	m := got(c.Alloc(64))(t)
	defer m.Close()
	f.reset()
	for _, r := range []struct{ offset, n int }{{0, 65}, {64, 1}, {-1, 8}, {0, -1}, {1, 1<<63 - 1}} {
		failsWith(t, s.CopyToDevice(m.Ptr(), h, r.offset, r.n), "are not within 64")
		failsWith(t, s.CopyToHost(h, r.offset, m.Ptr(), r.n), "are not within 64")
	}
	failsWith(t, m.Write(60, make([]byte, 5)), "5 bytes at 60 are not within 64")
	failsWith(t, m.Read(60, make([]byte, 5)), "5 bytes at 60 are not within 64")
	f.expect(t, "")
}

func TestStreamsAndEvents(t *testing.T) {
	f := openFake(t)
	c := f.context(t)
	least, greatest, err := c.StreamPriorities()
	require.NoError(t, err)
	if least != 0 || greatest != -5 {
		t.Errorf("priorities %d to %d", least, greatest)
	}
	free, total, err := c.MemoryInfo()
	require.NoError(t, err)
	if free != 1000 || total != 4000 {
		t.Errorf("%d of %d bytes free", free, total)
	}
	s := got(c.NewStream(greatest))(t)
	start, end := got(c.NewEvent(EventDefault))(t), got(c.NewEvent(EventDefault))(t)
	got(c.NewEvent(EventDisableTiming))(t)
	require.NoError(t, end.Record(s))
	require.NoError(t, s.Wait(end))
	require.NoError(t, end.Synchronize())
	require.NoError(t, s.Synchronize())
	took := got(end.Since(start))(t)
	f.expect(t, "cuStreamCreateWithPriority(1, -5)", "cuEventCreate(0)", "cuEventCreate(0)", "cuEventCreate(2)",
		"cuEventRecord(0xe0, 0x50)", "cuStreamWaitEvent(0x50, 0xe0, 0)", "cuEventSynchronize(0xe0)", "cuStreamSynchronize(0x50)",
		"cuEventElapsedTime(0xe0, 0xe0)")
	if took != 250*time.Microsecond {
		t.Errorf("0.25 ms are %v", took)
	}
}

func TestDoneDistinguishesNotReadyFromErrors(t *testing.T) {
	f := openFake(t)
	c := f.context(t)
	s, e := got(c.NewStream(0))(t), got(c.NewEvent(EventDisableTiming))(t)
	for _, tt := range []struct {
		name string
		done func() (bool, error)
	}{{"cuStreamQuery", s.Done}, {"cuEventQuery", e.Done}} {
		f.reset()
		if ok := got(tt.done())(t); !ok {
			t.Errorf("%s: success is not done", tt.name)
		}
		f.fail(tt.name, NotReady)
		if ok := got(tt.done())(t); ok {
			t.Errorf("%s: not ready is done", tt.name)
		}
		f.fail(tt.name, IllegalAddress)
		if _, err := tt.done(); !Sticky(err) {
			t.Errorf("%s: an illegal address is %v", tt.name, err)
		}
	}
}
