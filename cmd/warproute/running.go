package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/cli"
	"github.com/warproute/warproute/internal/service"
	"github.com/warproute/warproute/internal/spawner"
)

// running is the router of a `run`.
type running struct {
	*service.Service
	cmd     *cobra.Command
	f       *runFlags
	spawner *spawner.Spawner // nil: it did not start
	manager manager
	log     *slog.Logger
	level   *slog.LevelVar
	unwatch func() // ends the feeding of the watchdog
}

// start starts the router, in place of another one unless from is nil.
func (r *running) start(cfg *config.Config, from *service.Predecessor) (err error) {
	if from == nil {
		r.Service, err = service.Start(cfg, cli.Build(), r.log, r.level, confine(cfg))
	} else {
		r.Service, err = service.Inherit(cfg, cli.Build(), r.log, r.level, confine(cfg), from)
	}
	if err != nil {
		return err
	}
	describe(r.cmd.OutOrStdout(), cfg, r.Snapshot())
	r.ready()
	ctx, cancel := context.WithCancel(r.cmd.Context())
	r.unwatch = cancel
	go r.manager.watch(ctx, r.Probe)
	return nil
}

// ready reports the open ports to the service manager.
func (r *running) ready() {
	var open int
	r.f.running, open = r.Ports()
	r.manager.ready(open)
}

func (r *running) reload(dry bool) *status.Reload {
	r.manager.reloading()
	defer r.ready()
	return r.Reload(r.f.reload, dry)
}

// stop stops the router and prints the account.
func (r *running) stop() {
	r.unwatch()
	last, err := r.Stop()
	if err != nil {
		r.log.Error("stop", "err", err)
	}
	account(r.cmd.OutOrStdout(), last)
}
