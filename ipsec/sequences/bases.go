package sequences

import (
	"encoding/binary"
	"fmt"

	"github.com/warproute/warproute/ipsec"
)

// The bases of nonces are noted, so that one is drawn far from those before. What the
// directory has lost, or has of an earlier time, costs nothing but that distance: bases
// are random.
//
// Of all that were ever drawn the last maxBases are known.
const maxBases = 1024

// baseCount is by what the number of all bases that were drawn is noted.
var baseCount = idOf("nonce bases")

func baseID(n uint64) id {
	return idOf("nonce base", binary.BigEndian.AppendUint64(nil, n%maxBases))
}

// Begin draws a base for the nonces of a router that starts, and notes it, as Extend
// does with those that are drawn later.
func (s *Store) Begin(n *ipsec.Nonces) error {
	drawn, _ := s.used.number(baseCount)
	for i := range min(drawn, maxBases) {
		if base, ok := s.used.number(baseID(i)); ok {
			n.Avoid(base)
		}
	}
	n.Renew()
	s.nonces = n
	return s.noteBase()
}

// noteBase notes the base in use, if that was not done.
func (s *Store) noteBase() error {
	if s.nonces == nil || s.nonces.Base() == s.base {
		return nil
	}
	base := s.nonces.Base()
	drawn, _ := s.used.number(baseCount)
	if err := s.used.note(map[id]uint64{baseID(drawn): base, baseCount: drawn + 1}, true); err != nil {
		return fmt.Errorf("note the base of nonces: %w", err)
	}
	s.base = base
	return nil
}
