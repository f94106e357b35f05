package sequences

import (
	"encoding/binary"
	"fmt"

	"github.com/warproute/warproute/ipsec"
)

// Nonce bases are stored, so that a new one is far from earlier ones. A lost or restored
// directory costs only that distance, since bases are random. The last maxNonceBases are kept.
const maxNonceBases = 1024

// nonceBaseCount is the id of the number of all bases drawn so far.
var nonceBaseCount = idOf("nonce bases")

func nonceBaseID(n uint64) id {
	return idOf("nonce base", binary.BigEndian.AppendUint64(nil, n%maxNonceBases))
}

// Begin draws a nonce base for a starting router and stores it. Extend stores later ones.
func (s *Store) Begin(n *ipsec.Nonces) error {
	s.avoidStored(n)
	n.Renew()
	s.nonces = n
	return s.noteNonceBase()
}

// avoidStored records the stored bases.
func (s *Store) avoidStored(n *ipsec.Nonces) {
	drawn, _ := s.used.number(nonceBaseCount)
	for i := range min(drawn, maxNonceBases) {
		if base, ok := s.used.number(nonceBaseID(i)); ok {
			n.Avoid(base)
		}
	}
}

// noteNonceBase stores the current base, if it is new.
func (s *Store) noteNonceBase() error {
	if s.nonces == nil || s.nonces.Base() == s.nonceBase {
		return nil
	}
	base := s.nonces.Base()
	if err := s.storeNonceBase(base); err != nil {
		return err
	}
	s.nonceBase = base
	return nil
}

// storeNonceBase adds a base to the stored ones.
func (s *Store) storeNonceBase(base uint64) error {
	drawn, _ := s.used.number(nonceBaseCount)
	if err := s.used.note(map[id]uint64{nonceBaseID(drawn): base, nonceBaseCount: drawn + 1}, true); err != nil {
		return fmt.Errorf("store the nonce base: %w", err)
	}
	return nil
}
