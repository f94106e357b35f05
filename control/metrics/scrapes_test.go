package metrics

import (
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/hist"
)

// While two scrapes wait for a snapshot, further ones are answered by 503 at once, and so are the two after
// the timeout. They continue to count until their snapshots are complete; then scrapes work again.
func TestScrapesAreBounded(t *testing.T) {
	taken, release := make(chan bool, 2*maxScrapes), make(chan bool)
	h := handler(Build{}, func() *status.Snapshot {
		taken <- true
		<-release
		return &status.Snapshot{Stats: &dataplane.Stats{}, Updates: new(hist.Snapshot)}
	}, 200*time.Millisecond)
	scrape := func() (int, string) {
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
		return answer.Code, answer.Body.String()
	}
	var scrapes sync.WaitGroup
	for range maxScrapes {
		scrapes.Go(func() {
			if code, text := scrape(); code != 503 || !strings.Contains(text, "timeout") {
				t.Errorf("without a snapshot: %d, %q", code, text)
			}
		})
		<-taken
	}
	for range 100 {
		if code, text := scrape(); code != 503 || !strings.Contains(text, "concurrent requests") {
			t.Fatalf("above the limit: %d, %q", code, text)
		}
	}
	scrapes.Wait()
	if code, _ := scrape(); code != 503 {
		t.Errorf("%d while two snapshots are not complete", code)
	}
	close(release)
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		if code, text := scrape(); code == 200 && strings.Contains(text, "warproute_build_info") {
			break
		} else if time.Since(start) > 5*time.Second {
			t.Fatalf("after the snapshots: %d, %q", code, text)
		}
	}
}
