package gpu

import (
	"errors"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// TestMultiprocessorsAreLimited: the streams of the context are in a partition, rounded up to multiples of
// two of the fake's ten multiprocessors. The whole GPU needs no partition.
func TestMultiprocessorsAreLimited(t *testing.T) {
	f, library := newFake(t)
	f.version = 12050
	found := got(find(library, 1))(t)[0]
	for _, tt := range []struct {
		most, want  int
		partitioned uint32
	}{{0, 10, 0}, {10, 10, 0}, {9, 10, 0}, {4, 4, 1}, {3, 4, 1}, {1, 2, 1}} {
		f.partitioned = 0
		ctx, n, err := openContext(found, tt.most)
		require.NoError(t, err)
		require.NoError(t, ctx.Do(func() error {
			s, err := ctx.NewStream(0)
			require.NoError(t, err)
			m, err := ctx.Register(mapMemory(t, 4096))
			require.NoError(t, err)
			return errors.Join(m.Close(), s.Close())
		}))
		if n != tt.want || f.partitioned != tt.partitioned {
			t.Errorf("at most %d: %d multiprocessors, want %d; %d streams in a partition, want %d", tt.most, n, tt.want, f.partitioned, tt.partitioned)
		}
		if err := ctx.Close(); err != nil || f.held != 0 {
			t.Errorf("at most %d: close: %v, %d resources left", tt.most, err, f.held)
		}
	}
}

func TestImpossibleLimitOfMultiprocessorsIsAnError(t *testing.T) {
	f, library := newFake(t)
	for name, tt := range map[string]struct {
		most    int
		version uint32
		fail    string
		result  uint32
		want    string
	}{
		"more than the GPU has": {most: 11, want: "limit the router to 11 of 10 multiprocessors: the GPU has fewer; set gpu.multiprocessors to 10 or less, or to 0 for all"},
		"driver without partitions": {
			most: 4, fail: "cuDeviceGetDevResource", result: 801,
			want: "set gpu.multiprocessors to 0, or limit the router by MPS",
		},
		"GPU that MPS limits": {
			most: 4, version: 12050, fail: "cuDevSmResourceSplitByCount", result: 915,
			want: "unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE; or set gpu.multiprocessors to 0",
		},
		"failure of the driver": {most: 4, version: 12050, fail: "cuGreenCtxCreate", result: 2, want: "limit the router to 4 of 10 multiprocessors: create a context on 4"},
	} {
		t.Run(name, func(t *testing.T) {
			f.version, f.result = tt.version, tt.result
			found := got(find(library, 1))(t)[0]
			f.failNext(tt.fail)
			_, _, err := openContext(found, tt.most)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if f.held != 0 {
				t.Errorf("%d resources are not freed", f.held)
			}
		})
	}
}
