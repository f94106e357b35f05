package service

import (
	"errors"
	"sync"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/sequences"
)

// ipsecGateway is the IPsec gateway of a router, with the state that outlives a restart. Callers
// of its methods hold stateMu, which may wait for the disk; mu never does.
type ipsecGateway struct {
	stateMu sync.Mutex // guards all but the gateway
	mu      sync.Mutex // guards the gateway; the XFRM mirror, if there is one, has its own lock

	gateway  *gateway.Gateway
	passed   func() func() bool // fib.FIB.Passed
	deferred []deferred

	// Of the configuration's SAs.
	workers  int
	store    store // nil with SAs from Linux
	sas      map[string]*configuredSA
	draining []*configuredSA // see drainTime
	drainEnd time.Time
	prepared bool    // a transaction is to be committed or aborted
	failed   []error // to log with the next tick
}

// store keeps sequence numbers and lifetimes of SAs on disk: sequences.Store.
type store interface {
	Begin(*ipsec.Nonces) error
	Keep(...sequences.Association) error
	Receive(...sequences.Association)
	Live(...sequences.Association) error
	Extend() error
	Note() error
	Release(...*ipsec.SA) error
	Volatile() string
	ReserveNonceBase() (uint64, error)
	HandOver() error
	Close() error
}

// deferred is an action that waits until no worker uses earlier unpublished state.
type deferred struct {
	quiescent func() bool
	run       func()
}

func newIPsecGateway(cfg *config.IPsec, workers int, passed func() func() bool) (*ipsecGateway, error) {
	store, err := sequences.Open(cfg.State)
	if err != nil {
		return nil, err
	}
	return newGatewayWith(store, cfg, workers, passed)
}

func newGatewayWith(store store, cfg *config.IPsec, workers int, passed func() func() bool) (*ipsecGateway, error) {
	p := &ipsecGateway{gateway: &gateway.Gateway{}, workers: workers, store: store, sas: map[string]*configuredSA{}, passed: passed}
	if err := store.Begin(&p.gateway.Nonces); err != nil {
		return nil, errors.Join(err, p.close())
	}
	if err := p.apply(cfg); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// afterQuiescence runs f when no worker uses state that is unpublished now.
func (p *ipsecGateway) afterQuiescence(f func()) {
	p.deferred = append(p.deferred, deferred{p.passed(), f})
}

// runDeferred runs the deferred actions that are due.
func (p *ipsecGateway) runDeferred() {
	now := p.deferred
	p.deferred = nil
	for _, d := range now {
		if d.quiescent() {
			d.run()
		} else {
			p.deferred = append(p.deferred, d)
		}
	}
}

// waitQuiescent waits up to 100 ms until the deferred actions have run, so that the sequence numbers of
// removed SAs are saved. Workers finish a chunk within milliseconds; later actions run by tick.
func (p *ipsecGateway) waitQuiescent() {
	for range 1000 {
		if p.runDeferred(); len(p.deferred) == 0 {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// tick does the periodic work of about every second.
func (p *ipsecGateway) tick() error {
	p.gateway.Clock.Set(batch.Clock()) // lifetimes pass without packets, too
	p.endDraining()
	p.runDeferred()
	errs := p.failed
	p.failed = nil
	if p.store != nil {
		errs = append(errs, p.store.Extend())
		if !p.prepared && len(p.deferred) == 0 { // else a tunnel may be of an SA that is not in the gateway yet
			p.freeTunnels()
		}
	}
	return errors.Join(errs...)
}

// freeTunnels frees the tunnels that no SA and no policy refers to.
func (p *ipsecGateway) freeTunnels() {
	p.mu.Lock()
	tunnels := p.gateway.Retire()
	p.mu.Unlock()
	if len(tunnels) == 0 {
		return
	}
	p.afterQuiescence(func() {
		p.mu.Lock()
		p.gateway.Free(tunnels)
		p.mu.Unlock()
	})
}

// saveReceived saves the received sequence numbers. It runs every sequences.NoteEvery.
func (p *ipsecGateway) saveReceived() {
	if p.store == nil || len(p.failed) > 0 { // an error is logged first
		return
	}
	if err := p.store.Note(); err != nil {
		p.failed = append(p.failed, err)
	}
}

// expired returns the configured SAs whose soft or hard lifetimes have expired since the last call.
func (p *ipsecGateway) expired() (soft, hard []string) {
	for name, a := range p.sas {
		if a.SoftExpired() {
			soft = append(soft, name)
		}
		if !a.expired && a.HardExpired() {
			a.expired = true
			hard = append(hard, name)
		}
	}
	return soft, hard
}

// close runs the deferred actions, overwrites all keys and closes the store. No worker runs.
func (p *ipsecGateway) close() error {
	for len(p.deferred) > 0 { // an action may defer another
		now := p.deferred
		p.deferred = nil
		for _, d := range now {
			d.run()
		}
	}
	for sa := range p.gateway.All {
		sa.Zero()
	}
	if p.store == nil {
		return nil
	}
	return errors.Join(append(p.failed, p.store.Close())...)
}
