package metrics_test

import (
	"bufio"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/warproute/warproute/control/metrics"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/hist"
)

// Prometheus scrapes the counters of a router with one port.
func Example() {
	handler := metrics.Handler(metrics.Build{Version: "v1.0.0"}, func() *status.Snapshot {
		return &status.Snapshot{
			Ports:   []status.PortState{{Name: "eth1", Up: true}},
			Stats:   &dataplane.Stats{Ports: []dataplane.PortStats{{RxPackets: 1000, TxPackets: 990}}},
			Updates: new(hist.Snapshot),
		}
	})
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))

	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "warproute_") && strings.Contains(lines.Text(), "x_packets_total") {
			fmt.Println(lines.Text())
		}
	}
	// Output:
	// warproute_port_rx_packets_total{port="eth1"} 1000
	// warproute_port_tx_packets_total{port="eth1"} 990
}
