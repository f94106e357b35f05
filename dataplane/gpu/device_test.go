package gpu

import (
	"strings"
	"testing"

	"github.com/warproute/warproute/cuda"
)

// TestDeviceRejectsTooManyBlocks: blocks that are not resident together, and streams with one hardware
// queue, would wait forever.
func TestDeviceRejectsTooManyBlocks(t *testing.T) {
	d := &Device{info: cuda.DeviceInfo{Multiprocessors: 10}, blocks: 50, taken: 11, engines: make([]*Engine, 2)}
	for _, c := range []struct {
		workers, chunks int
		want            string
	}{
		{0, 0, ""},
		{4, 8, ""},
		{5, 8, "40 more chunks on a GPU: its 10 multiprocessors have room for 39"},
		{26, 1, ""},
		{27, 1, "29 workers on a GPU: at most 28 are possible"},
		{1, 65, "the range is 1 to 64"},
		{1, 0, "the range is 1 to 64"},
	} {
		err := d.fits(c.workers, c.chunks)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d workers with %d chunks: %v, want %q", c.workers, c.chunks, err, c.want)
		}
	}
}
