// Package service assembles and runs a router: everything that `warproute run` does between its
// flags and its signals.
//
// It opens the ports (afxdp), gives each worker memory, chunks and an engine (dataplane), copies
// Linux's routes and neighbors into the FIB (control/mirror), and serves the
// control socket and the metrics.
package service

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/guard"
	"github.com/warproute/warproute/control/metrics"
	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/control/page"
	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/control/xfrm"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/tun"
)

// Service is a running router.
type Service struct {
	cfg     *config.Config
	level   *slog.LevelVar
	log     *slog.Logger
	closers closers
	background

	fib    *fib.FIB
	engine engine
	memory memory
	ports  ports
	mirror *mirror.Mirror
	router *dataplane.Router

	ipsec *ipsecGateway  // nil without IPsec
	xfrm  *xfrm.Mirror   // nil with SAs and policies from the configuration
	guard *guard.Watcher // nil without IPsec
	tun   *tun.Device    // nil without a tunnel interface
	exit  *tun.Device    // nil without an interface on which Linux forwards

	tunnels hostTunnels
	rpf     portRPF
	metrics endpoint
	page    endpoint
	reloads reloads
	taps    atomic.Int32 // running captures and traces

	last *status.Snapshot // taken when the workers had stopped
}

// Start starts a router with a checked configuration. It opens its sockets in the network
// namespace of the calling thread. After an error nothing of it is left. A reload changes level, that of the log.
func Start(cfg *config.Config, build metrics.Build, log *slog.Logger, level *slog.LevelVar) (*Service, error) {
	s := &Service{
		cfg: cfg, log: log, level: level,
		background: background{ending: make(chan struct{})},
		memory:     memory{chunks: config.ChunksWithCPU},
		ports:      ports{sockets: map[string]int{}, links: make([]link, len(cfg.Ports)), logical: map[int]*logicalPort{}, local: map[netip.Addr]bool{}},
		reloads:    newReloads(),
	}
	if err := s.start(build); err != nil {
		_, stopErr := s.Stop()
		return nil, errors.Join(err, stopErr)
	}
	return s, nil
}

// start runs the steps of the start; each pushes its closers.
func (s *Service) start(build metrics.Build) error {
	var seed [4]byte
	_, _ = rand.Read(seed[:]) // never fails (crypto/rand)
	s.fib = fib.New(binary.LittleEndian.Uint32(seed[:]))
	s.closers.push("free the workers' memory", s.memory.close) // last: sockets and GPUs access it
	for _, step := range []func() error{
		s.startGuard, s.openIPsec, s.openEngine, s.openPorts, s.openTunnelInterface, s.openExit, s.openTunnels, s.startMirror, s.watchIPsec, s.startXFRM,
		s.startWorkers, s.threadNAPI, s.startWatchers,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	s.warnAboutFilters()
	if err := s.serve(build); err != nil {
		return err
	}
	if s.ipsec != nil {
		if err := s.ports.Guard(); err != nil {
			return err
		}
	}
	return s.ports.Admit() // until here Linux gets every frame
}

// serve answers on the addresses of metrics and of the status page, and on the control socket.
func (s *Service) serve(build metrics.Build) error {
	s.metrics = endpoint{key: "metrics.listen", listen: func(c *config.Config) string { return c.Metrics.Listen }, handler: metrics.Handler(build, s.Snapshot)}
	s.page = endpoint{key: "status.listen", listen: func(c *config.Config) string { return c.Status.Listen },
		handler: page.Handler(page.Source{Version: build.Version, Snapshot: s.Snapshot, Ending: s.ending})}
	s.closers.push("stop serving metrics", func() error { return s.metrics.close() })
	s.closers.push("stop serving the status page", func() error { return s.page.close() })
	for _, e := range []*endpoint{&s.metrics, &s.page} {
		if err := e.start(s.cfg, nil); err != nil {
			return err
		}
	}
	control, err := socket.Serve(s.cfg.Control.Socket, s.handlers())
	if err == nil {
		s.closers.push("close the control socket", control.Close)
	}
	return err
}

// startWatchers starts the periodic checks of a running router.
func (s *Service) startWatchers() error {
	s.closers.push("stop watchers", infallible(s.background.wg.Wait))
	s.every(time.Second, s.checkQueues())
	s.every(time.Second, s.checkHealth())
	s.every(time.Second, s.checkRefused())
	s.every(time.Second, func(time.Time) { s.updateRPF() })
	s.every(time.Second, func(time.Time) { s.updateTunnels() })
	s.every(time.Second, s.checkExit())
	return nil
}

// Stop stops taking frames from the ports, sends the received ones and closes everything. It
// returns the last snapshot, nil if the start failed before there were workers.
func (s *Service) Stop() (*status.Snapshot, error) {
	close(s.ending)
	err := s.closers.unwind()
	return s.last, err
}
