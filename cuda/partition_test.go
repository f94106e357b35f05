package cuda

import (
	"errors"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

func TestPartitions(t *testing.T) {
	f := openFake(t)
	d := got(f.Devices())(t)[0]
	f.reset()
	parts, remaining, err := d.Split(3, 30)
	require.NoError(t, err)
	f.expect(t, "cuDeviceGetDevResource(0, 1)", "cuDevSmResourceSplitByCount(3, 132, 0, 30)")
	if len(parts) != 3 || parts[2].Multiprocessors() != 32 || remaining.Multiprocessors() != 36 {
		t.Fatalf("%d parts of %d, %d remaining", len(parts), parts[0].Multiprocessors(), remaining.Multiprocessors())
	}
	if few, _, err := d.Split(8, 60); err != nil || len(few) != 2 {
		t.Errorf("8 partitions of 60 of 132: %d, %v", len(few), err)
	}
	_, _, err = d.Split(0, 8)
	failsWith(t, err, "split GPU 0 into 0 partitions")

	f.reset()
	c := got(remaining.NewContext())(t)
	require.NoError(t, c.Do(func() error { return nil }))
	require.NoError(t, c.Close())
	f.expect(t, "cuDevResourceGenerateDesc(36, 1)", "cuGreenCtxCreate(0xd0, 0, 1)", "cuCtxFromGreenCtx(0x90)",
		"cuCtxPushCurrent_v2(0x91)", "cuCtxPopCurrent_v2()", "cuGreenCtxDestroy(0x90)")

	f.fail("cuCtxFromGreenCtx", InvalidContext)
	_, err = remaining.NewContext()
	failsWith(t, err, "create a context on 36 multiprocessors")
	f.expect(t, "cuDevResourceGenerateDesc(36, 1)", "cuGreenCtxCreate(0xd0, 0, 1)", "cuCtxFromGreenCtx(0x90)", "cuGreenCtxDestroy(0x90)")
}

// TestPartitionOfThePrimaryContext: streams alone are of the partition. The green context ends before the
// primary one.
func TestPartitionOfThePrimaryContext(t *testing.T) {
	f := openFake(t)
	d := got(f.Devices())(t)[0]
	parts, _, err := d.Split(1, 30)
	require.NoError(t, err)
	f.reset()
	c := got(parts[0].Retain())(t)
	require.NoError(t, c.Do(func() error {
		s := got(c.NewStream(-1))(t)
		got(c.Alloc(64))(t)
		return s.Close()
	}))
	require.NoError(t, c.Close())
	f.expect(t, "cuDevicePrimaryCtxRetain(0)", "cuDevResourceGenerateDesc(32, 1)", "cuGreenCtxCreate(0xd0, 0, 1)",
		"cuCtxPushCurrent_v2(0xc0)", "cuGreenCtxStreamCreate(0x90, 1, -1)", "alloc_by_lookup(64)", "cuStreamDestroy_v2(0x51)", "cuCtxPopCurrent_v2()",
		"cuGreenCtxDestroy(0x90)", "cuDevicePrimaryCtxRelease_v2(0)")

	for _, call := range []string{"cuDevicePrimaryCtxRetain", "cuDevResourceGenerateDesc", "cuGreenCtxCreate"} {
		f.fail(call, OutOfMemory)
		_, err := parts[0].Retain()
		failsWith(t, err, call+"(")
		want := []string{"cuDevicePrimaryCtxRetain(0)", "cuDevResourceGenerateDesc(32, 1)", "cuGreenCtxCreate(0xd0, 0, 1)"}
		for i, name := range want {
			if strings.HasPrefix(name, call+"(") {
				want = want[:i+1]
				break
			}
		}
		if len(want) > 1 {
			want = append(want, "cuDevicePrimaryCtxRelease_v2(0)")
		}
		f.expect(t, want...)
	}
}

// TestFailedCloseOfAPartitionIsRepeated: a driver that refuses to destroy either context keeps both.
func TestFailedCloseOfAPartitionIsRepeated(t *testing.T) {
	f := openFake(t)
	parts, _, err := got(f.Devices())(t)[0].Split(1, 30)
	require.NoError(t, err)
	c := got(parts[0].Retain())(t)
	for _, call := range []string{"cuGreenCtxDestroy", "cuDevicePrimaryCtxRelease_v2"} {
		f.fail(call, InvalidContext)
		failsWith(t, c.Close(), "close a context")
	}
	f.reset()
	require.NoError(t, c.Close())
	f.expect(t, "cuDevicePrimaryCtxRelease_v2(0)")
	require.NoError(t, c.Close())
}

func TestPartitionOfThePrimaryContextRequiresItsDriver(t *testing.T) {
	f := openFake(t, "TWELVE_FOUR")
	parts, _, err := got(f.Devices())(t)[0].Split(1, 30)
	require.NoError(t, err)
	f.reset()
	_, err = parts[0].Retain()
	failsWith(t, err, "create streams on 32 multiprocessors: cuGreenCtxStreamCreate: requires CUDA 12.5, the driver supports CUDA 12.4: update the driver")
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Error("the error is not errors.ErrUnsupported")
	}
	f.expect(t, "cuDevicePrimaryCtxRetain(0)", "cuDevicePrimaryCtxRelease_v2(0)")
}
