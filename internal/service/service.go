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

	initial          *config.Config // cfg at the start, with the ports that it selected then
	partialChecksums []bool         // by port
	hotplug          hotplug

	fib    *fib.FIB
	engine engine
	memory memory
	cores  cores
	ports  ports
	mirror *mirror.Mirror
	links  linkCounters
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
	confine Confine

	version  string // of this binary
	upgrades chan UpgradeRequest
	from     *Predecessor // nil: an ordinary start
	owns     atomic.Bool  // the predecessor has ended
	handing  atomic.Bool  // this router hands over, or has

	last *status.Snapshot // taken when the workers had stopped
}

// Confine has functions that reduce privileges during the start; nil functions reduce nothing.
type Confine struct {
	Process func() error // when the engines run and before the workers start
	Worker  func() error // on the thread of each worker
}

// Start starts a router with a checked configuration. It opens its sockets in the network
// namespace of the calling thread. After an error nothing of it is left. A reload changes level, that of the log.
func Start(cfg *config.Config, build metrics.Build, log *slog.Logger, level *slog.LevelVar, confine Confine) (*Service, error) {
	return start(cfg, build, log, level, confine, nil)
}

func start(cfg *config.Config, build metrics.Build, log *slog.Logger, level *slog.LevelVar, confine Confine, from *Predecessor) (*Service, error) {
	cfg, err := withMembers(cfg)
	if err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, log: log, level: level, from: from,
		background: background{ending: make(chan struct{})},
		memory:     memory{chunks: config.ChunksWithCPU},
		ports:      ports{sockets: map[string]int{}, logical: map[int]*logicalPort{}, local: map[netip.Addr]bool{}},
		hotplug:    newHotplug(),
		reloads:    newReloads(),
		confine:    confine,
		upgrades:   make(chan UpgradeRequest),
	}
	s.version = build.Version
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
		s.openLinkCounters, s.selectPorts, s.startGuard, s.openIPsec, s.openEngine, s.openPorts, s.openTunnelInterface, s.openExit, s.openTunnels, s.startMirror, s.watchIPsec, s.startXFRM,
		s.createWorkers,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	begin := s.runWorkers
	if s.inherits() {
		begin = func() error { return s.replace(build.Version) }
	}
	for _, step := range []func() error{begin, s.threadNAPI, s.startWatchers} {
		if err := step(); err != nil {
			return err
		}
	}
	s.warnAboutFilters()
	if err := s.serve(build); err != nil {
		if s.from == nil {
			return err
		}
		s.log.Error("not served, packets are forwarded", "err", err) // the ports have no other process
	}
	if s.from == nil {
		if err := s.admit(); err != nil { // until here Linux gets every frame
			return err
		}
	}
	if s.guard != nil {
		s.guard.Started()
	}
	s.watchPorts()
	return nil
}

// admit has the XDP programs redirect frames, on a gateway in gateway mode.
func (s *Service) admit() error {
	if s.ipsec != nil {
		if err := s.ports.Guard(); err != nil {
			return err
		}
	}
	return s.ports.Admit()
}

// serve answers on the addresses of metrics and of the status page, and on the control socket.
func (s *Service) serve(build metrics.Build) error {
	s.metrics = metricsEndpoint(metrics.Handler(build, s.Snapshot), s.log)
	s.page = pageEndpoint(page.Handler(page.Source{Version: build.Version, Snapshot: s.Snapshot, Ending: s.ending}), s.log)
	s.closers.push("stop serving metrics", func() error { return s.metrics.close() })
	s.closers.push("stop serving the status page", func() error { return s.page.close() })
	var errs []error
	for _, e := range []*endpoint{&s.metrics, &s.page} {
		errs = append(errs, e.start(s.cfg, nil))
	}
	access, err := s.access()
	if err != nil {
		return err
	}
	control, err := socket.Serve(s.cfg.Control.Socket, s.handlers(), access)
	if err == nil {
		s.closers.push("close the control socket", control.Close)
	}
	return errors.Join(append(errs, err)...)
}

// startWatchers starts the periodic checks of a running router.
func (s *Service) startWatchers() error {
	s.closers.push("stop watchers", infallible(s.background.wg.Wait))
	s.every(time.Second, s.checkQueues())
	s.every(time.Second, s.checkHealth())
	s.every(time.Second, s.checkRefused())
	s.every(time.Second, s.checkPrograms())
	s.every(time.Second, func(time.Time) { s.updateRPF() })
	s.every(time.Second, func(time.Time) { s.updateTunnels() })
	s.every(time.Second, s.checkExit())
	s.every(time.Second, s.followCores)
	return nil
}

// Ports returns the ports of the active configuration, and the number of open ones. It is for the goroutine that calls Reload.
func (s *Service) Ports() (configured []config.Port, open int) {
	return config.WithoutMembers(s.cfg.Ports), s.ports.count()
}

// Stop stops taking frames from the ports, sends the received ones and closes everything. It
// returns the last snapshot, nil if the start failed before there were workers.
func (s *Service) Stop() (*status.Snapshot, error) {
	close(s.ending)
	err := s.closers.unwind()
	return s.last, err
}
