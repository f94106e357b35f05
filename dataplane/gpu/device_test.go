package gpu

import (
	"strings"
	"testing"

	"github.com/warproute/warproute/cuda"
)

// More blocks than can be resident together would wait for each other for ever, and
// so would streams that share a queue: they are refused.
func TestADeviceServesNoMoreThanFit(t *testing.T) {
	d := &Device{info: cuda.DeviceInfo{Multiprocessors: 10}, blocks: 50, taken: 11, engines: make([]*Engine, 2)}
	for _, c := range []struct {
		workers, chunks int
		want            string
	}{
		{0, 0, ""},
		{4, 8, ""},
		{5, 8, "work on 40 more chunks: its 10 multiprocessors have room for 39"},
		{26, 1, ""},
		{27, 1, "serve 29 workers: 28 are possible"},
		{1, 65, "1 to 64 are possible"},
		{1, 0, "1 to 64 are possible"},
	} {
		err := d.fits(c.workers, c.chunks)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d workers with %d chunks: %v, want %q", c.workers, c.chunks, err, c.want)
		}
	}
}
