package service

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/handover"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/sequences"
)

// pendingStore stands for the store of a predecessor until that is handed over. No worker uses an SA before. It has
// copies of the keys, which callers overwrite.
type pendingStore struct{ sent, received []sequences.Association }

func (p *pendingStore) Begin(*ipsec.Nonces) error { return nil }

func (p *pendingStore) Keep(list ...sequences.Association) error {
	p.sent = append(p.sent, withKeys(list)...)
	return nil
}

func (p *pendingStore) Receive(list ...sequences.Association) {
	p.received = append(p.received, withKeys(list)...)
}

// withKeys returns SAs with copies of the keys.
func withKeys(list []sequences.Association) (all []sequences.Association) {
	for _, a := range list {
		all = append(all, sequences.Association{SA: a.SA, Key: bytes.Clone(a.Key)})
	}
	return all
}

// wipe overwrites the keys.
func (p *pendingStore) wipe() {
	for _, a := range append(p.sent, p.received...) {
		clear(a.Key)
	}
}

// Live does nothing: replay and continueStore start lifetimes.
func (p *pendingStore) Live(...sequences.Association) error { return nil }

func (p *pendingStore) Extend() error              { return nil }
func (p *pendingStore) Note() error                { return nil }
func (p *pendingStore) Release(...*ipsec.SA) error { return nil }
func (p *pendingStore) Volatile() string           { return "" }
func (p *pendingStore) Close() error               { p.wipe(); return nil }
func (p *pendingStore) ReserveNonceBase() (uint64, error) {
	return 0, errors.New("the sequence numbers are not handed over yet")
}
func (p *pendingStore) HandOver() error { return nil }

// continueIPsec makes all SAs continue from the state of the predecessor.
func (s *Service) continueIPsec(state *handover.State) error {
	if s.ipsec == nil {
		return nil
	}
	s.ipsec.gateway.Nonces.Avoid(state.NonceBases...)
	if s.xfrm != nil {
		s.ipsec.gateway.RenewNonces()
		return s.xfrm.TakeOver(state.SAs)
	}
	p := s.ipsec
	p.stateMu.Lock()
	defer p.stateMu.Unlock()
	pending, ok := p.store.(*pendingStore)
	if !ok {
		return errors.New("sequence numbers are handed over twice")
	}
	defer pending.wipe()
	var err error
	if state.Exact {
		err = p.continueStore(pending, s.cfg.IPsec.State, state)
	} else {
		err = p.reopenStore(pending, s.cfg.IPsec.State)
	}
	if err != nil {
		return fmt.Errorf("continue the SAs of the running router: %w", err)
	}
	p.gateway.PutNonceBase() // SAs were added before
	s.warnAboutVolatileState()
	return nil
}

// continueStore continues the numbers exactly. SAs that the predecessor lacks start as new ones do.
func (p *ipsecGateway) continueStore(pending *pendingStore, dir string, state *handover.State) error {
	store, err := sequences.Inherit(dir, &p.gateway.Nonces, state.NonceBase)
	if err != nil {
		return err
	}
	p.store = store
	var known []sequences.Inherited
	unknown := &pendingStore{}
	for _, list := range []struct {
		from []sequences.Association
		to   *[]sequences.Association
	}{{pending.sent, &unknown.sent}, {pending.received, &unknown.received}} {
		for _, a := range list.from {
			if st, ok := state.SAs[a.ID()]; ok {
				known = append(known, sequences.Inherited{Association: a, State: st})
			} else {
				*list.to = append(*list.to, a)
			}
		}
	}
	if err := store.Continue(known...); err != nil {
		return err
	}
	return unknown.replay(store)
}

// reopenStore opens the store as after a crash.
func (p *ipsecGateway) reopenStore(pending *pendingStore, dir string) error {
	var store *sequences.Store
	err := error(unix.EWOULDBLOCK)
	for end := time.Now().Add(time.Second); errors.Is(err, unix.EWOULDBLOCK) && time.Now().Before(end); time.Sleep(time.Millisecond) {
		store, err = sequences.Open(dir)
	}
	if err != nil {
		return err
	}
	p.store = store
	if err := store.Begin(&p.gateway.Nonces); err != nil {
		return err
	}
	return pending.replay(store)
}

// replay repeats the calls on a store.
func (p *pendingStore) replay(s store) error {
	if len(p.sent)+len(p.received) == 0 {
		return nil
	}
	if err := s.Keep(p.sent...); err != nil {
		return err
	}
	s.Receive(p.received...)
	return s.Live(append(p.sent, p.received...)...)
}
