// Package metrics exports the counters of a router to Prometheus.
//
// Each scrape converts one status.Snapshot. Labels are bounded: ports, reasons, stages, causes, and
// SA names, which do not change at a rekey.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/warproute/warproute/control/status"
)

// Build describes the binary: the labels of build_info.
type Build struct {
	Version   string `json:"version"`        // release version
	Revision  string `json:"revision"`       // Git revision
	Date      string `json:"date,omitempty"` // of the revision, RFC 3339
	GoVersion string `json:"go"`             // Go version
}

const (
	maxScrapes    = 2                // at a time; further ones are answered by 503
	scrapeTimeout = 10 * time.Second // then a scrape is answered by 503
)

// Handler serves snapshots, and metrics of the process and the Go runtime, at /metrics.
func Handler(build Build, snapshot func() *status.Snapshot) http.Handler {
	return handler(build, snapshot, scrapeTimeout)
}

// handler is Handler with another timeout. A scrape that exceeds it counts for the limit until its snapshot is
// complete. Slow clients do not count: an answer is complete before its first byte is sent.
func handler(build Build, snapshot func() *status.Snapshot, timeout time.Duration) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(&collector{build, snapshot}, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, Timeout: timeout}))
	return mux
}
