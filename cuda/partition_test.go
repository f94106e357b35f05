package cuda

import (
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
