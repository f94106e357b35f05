//go:build !nogpu

package cuda

import (
	"runtime"
	"strings"
	"sync"
	"testing"
)

// TestLoadNamesMissingLibrary runs on many threads: dlerror is per thread.
func TestLoadNamesMissingLibrary(t *testing.T) {
	const name = "libabsent.so.1"
	var wg sync.WaitGroup
	for range 4 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for range 500 {
				if _, err := load([]string{name}); !strings.Contains(err.Error(), name) {
					t.Errorf("load: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
}
