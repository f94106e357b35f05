package device

import (
	"bytes"
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/wycheproof"
	"github.com/warproute/warproute/ipsec/suite"
)

// The kernels' code accepts the packets of Project Wycheproof that are right, seals them to the same
// bytes, and refuses those that are wrong, with any number of lanes.
func TestWycheproof(t *testing.T) {
	all, err := wycheproof.Packets()
	require.NoError(t, err)
	type check struct {
		wycheproof.Packet
		text int // offset of what is encrypted
		icv  int
	}
	var requests []*request
	var checks []check
	counts := map[string]int{}
	for i, p := range all {
		s, err := suite.ByName(p.Suite)
		require.NoError(t, err)
		counts[s.Name]++
		keys := [2]*Key{}
		for i := range keys {
			keys[i], err = NewKey(s, p.Key, p.AuthKey, i == 1)
			require.NoError(t, err)
		}
		lanes := teams[i%len(teams)]
		of := association{Suite: s}
		requests = append(requests, &request{operation: open, lanes: lanes, extended: p.ESN, high: p.High, key: keys[1], packet: bytes.Clone(p.ESP)})
		checks = append(checks, check{p, 8 + s.IVLen, s.ICVLen})
		if p.Valid && p.Text != nil {
			unsealed := bytes.Clone(p.ESP)
			copy(unsealed[8+s.IVLen:], p.Text)
			clear(unsealed[len(unsealed)-s.ICVLen:])
			requests = append(requests, &request{operation: seal, lanes: of.sealing(lanes), extended: p.ESN, high: p.High, key: keys[0], packet: unsealed})
			checks = append(checks, check{p, 8 + s.IVLen, s.ICVLen})
		}
	}
	run(t, requests...)
	for i, q := range requests {
		c := checks[i]
		switch {
		case q.operation == seal:
			if !bytes.Equal(q.packet, c.ESP) {
				t.Errorf("%s, %s: sealed\n got  %x\n want %x", c.Suite, c.Name, q.packet, c.ESP)
			}
		case (q.differs == 0) != c.Valid:
			t.Errorf("%s, %s: accepted: %v, want %v", c.Suite, c.Name, q.differs == 0, c.Valid)
		case c.Valid && c.Text != nil:
			if text := q.packet[c.text : len(q.packet)-c.icv]; !bytes.Equal(text, c.Text) {
				t.Errorf("%s, %s: opened\n got  %x\n want %x", c.Suite, c.Name, text, c.Text)
			}
		}
	}
	for i := range suite.All {
		if name := suite.All[i].Name; counts[name] == 0 {
			t.Errorf("%s: no packets", name)
		}
	}
}
