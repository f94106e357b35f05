package metrics

import (
	"time"

	"github.com/warproute/warproute/control/status"
)

var (
	configReloads = desc("config_reload_total", "Reloads of the configuration, by what became of them: applied, unchanged, refused (takes a restart), invalid, failed.", "result")
	configLoaded  = desc("config_loaded_timestamp_seconds", "When the configuration in force was loaded, in seconds since 1970.")
	configTried   = desc("config_last_reload_timestamp_seconds", "When a reload was last asked for, in seconds since 1970; 0 if never.")
)

func (ch sender) config(s *status.Snapshot) {
	for _, result := range status.ReloadResults { // those of 0 too, so that rates have a start
		ch.counter(configReloads, s.Config.Reloads[result], string(result))
	}
	ch.gauge(configLoaded, seconds(s.Config.Loaded))
	ch.gauge(configTried, seconds(s.Config.Tried))
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
