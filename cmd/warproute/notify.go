package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// manager sends state changes to the service manager, if one started this program (sd_notify(3)).
type manager struct{ log *slog.Logger }

// ready reports that the router forwards packets between a number of ports.
func (m manager) ready(open int) {
	m.notify(fmt.Sprintf("%s\nSTATUS=forwarding on %d ports", daemon.SdNotifyReady, open))
}

// reloading reports a reload, which lasts until the next ready.
func (m manager) reloading() {
	m.notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

// mainPID reports the process that replaces this one, and waits until the service manager knows it: it accepts
// notifications of the main process only.
func (m manager) mainPID(pid int) {
	m.notify(fmt.Sprintf("MAINPID=%d", pid))
	if err := barrier(); err != nil {
		m.log.Warn("wait for the service manager", "err", err)
	}
}

func (m manager) stopping() { m.notify(daemon.SdNotifyStopping) }

func (m manager) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		m.log.Warn("notify the service manager", "err", err)
	}
}

// watch feeds the service manager's watchdog whenever probe finds that every part of the router
// makes progress. It returns when the context ends, or at once if no watchdog is set.
func (m manager) watch(ctx context.Context, probe func(limit time.Duration) error) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		m.log.Error("watchdog disabled", "err", err)
	}
	if limit == 0 {
		return
	}
	const perLimit = 3 // probes per limit, so that a late one does no harm
	tick := time.NewTicker(limit / perLimit)
	defer tick.Stop()
	for {
		if err := probe(limit / perLimit); err != nil {
			m.log.Error("watchdog not fed", "err", err, "limit", limit)
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
