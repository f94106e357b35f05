package gpu

import (
	"strings"
	"testing"
)

func TestDeviceRejectsTooManyWorkers(t *testing.T) {
	d := &Device{engines: make([]*Engine, maxWorkers-4)}
	if err := d.fits(4); err != nil {
		t.Errorf("%d workers: %v", maxWorkers, err)
	}
	if err := d.fits(5); err == nil || !strings.Contains(err.Error(), "257 workers on a GPU: at most 256 are possible") {
		t.Errorf("%d workers: %v", maxWorkers+1, err)
	}
}
