package sequences

import (
	"encoding/binary"
	"fmt"

	"github.com/warproute/warproute/ipsec"
)

// Nonce bases are stored, so that a new one is far from earlier ones. A lost or restored
// directory costs only that distance, since bases are random. The last maxBases are kept.
const maxBases = 1024

// baseCount is the id of the number of all bases drawn so far.
var baseCount = idOf("nonce bases")

func baseID(n uint64) id {
	return idOf("nonce base", binary.BigEndian.AppendUint64(nil, n%maxBases))
}

// Begin draws a nonce base for a starting router and stores it. Extend stores later ones.
func (s *Store) Begin(n *ipsec.Nonces) error {
	s.avoidStored(n)
	n.Renew()
	s.nonces = n
	return s.noteBase()
}

// avoidStored records the stored bases.
func (s *Store) avoidStored(n *ipsec.Nonces) {
	drawn, _ := s.used.number(baseCount)
	for i := range min(drawn, maxBases) {
		if base, ok := s.used.number(baseID(i)); ok {
			n.Avoid(base)
		}
	}
}

// noteBase stores the current base, if it is new.
func (s *Store) noteBase() error {
	if s.nonces == nil || s.nonces.Base() == s.base {
		return nil
	}
	base := s.nonces.Base()
	if err := s.storeBase(base); err != nil {
		return err
	}
	s.base = base
	return nil
}

// storeBase adds a base to the stored ones.
func (s *Store) storeBase(base uint64) error {
	drawn, _ := s.used.number(baseCount)
	if err := s.used.note(map[id]uint64{baseID(drawn): base, baseCount: drawn + 1}, true); err != nil {
		return fmt.Errorf("store the nonce base: %w", err)
	}
	return nil
}
