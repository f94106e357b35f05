package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/warproute/warproute/control/config"
)

// manager is the service manager that started this program (sd_notify(3)). Where there is
// none, it is told nothing.
type manager struct{ log *slog.Logger }

// ready reports that the router forwards.
func (m manager) ready(cfg *config.Config) {
	m.notify(fmt.Sprintf("%s\nSTATUS=forwarding on %d ports", daemon.SdNotifyReady, len(cfg.Ports)))
}

// reloading reports that the configuration is read again, until the next ready.
func (m manager) reloading() {
	m.notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

func (m manager) stopping() { m.notify(daemon.SdNotifyStopping) }

func (m manager) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		m.log.Warn("notify the service manager", "err", err)
	}
}

// watch feeds the service manager's watchdog until the context ends: each time that probe
// has found every part of the router making progress, and never otherwise. It returns at
// once where no watchdog is set.
func (m manager) watch(ctx context.Context, probe func(limit time.Duration) error) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		m.log.Error("no watchdog: its limit cannot be read", "err", err)
	}
	if limit == 0 {
		return
	}
	const perLimit = 3 // probes, so that one may be late
	tick := time.NewTicker(limit / perLimit)
	defer tick.Stop()
	for {
		if err := probe(limit / perLimit); err != nil {
			m.log.Error("the watchdog is not fed", "err", err, "limit", limit)
		} else {
			m.notify(daemon.SdNotifyWatchdog)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
