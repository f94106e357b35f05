package metrics

import (
	"time"

	"github.com/warproute/warproute/control/status"
)

var (
	configReloads = desc("config_reloads_total", "Configuration reloads by result: applied, unchanged, refused (needs a restart), invalid, failed.", "result")
	configLoaded  = desc("config_loaded_timestamp_seconds", "Unix time at which the active configuration was loaded.")
	configTried   = desc("config_last_reload_timestamp_seconds", "Unix time of the last reload request, 0 if none.")
)

// config sends the results of reloads and the load times.
func (ch sender) config(s *status.Snapshot) {
	for _, result := range status.ReloadResults { // with zeros, so that rates have a start
		ch.counter(configReloads, s.Config.Reloads[result], string(result))
	}
	ch.gauge(configLoaded, seconds(s.Config.Loaded))
	ch.gauge(configTried, seconds(s.Config.Tried))
}

// seconds returns Unix time in seconds, 0 for the zero time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
