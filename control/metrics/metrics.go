// Package metrics exports the counters of a router to Prometheus.
//
// Each scrape converts one status.Snapshot. Labels are bounded: ports, reasons, stages, causes, and
// SA names, which do not change at a rekey.
package metrics

import (
	"net/http"

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

// Handler serves snapshots, and metrics of the process and the Go runtime, at /metrics.
func Handler(build Build, snapshot func() *status.Snapshot) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(&collector{build, snapshot}, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	return mux
}
