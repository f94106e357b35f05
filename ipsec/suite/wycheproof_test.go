package suite_test

import (
	"bytes"
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/wycheproof"
	"github.com/warproute/warproute/ipsec/suite"
)

// Every suite accepts the packets of Project Wycheproof that are right, seals them to the same bytes,
// and refuses those that are wrong. TestMain runs it with and without vectors.
func TestWycheproof(t *testing.T) {
	all, err := wycheproof.Packets()
	require.NoError(t, err)
	for i := range suite.All {
		s := &suite.All[i]
		n := 0
		for _, p := range all {
			if p.Suite != s.Name {
				continue
			}
			n++
			transform, err := s.New(p.Key, p.AuthKey)
			if err != nil {
				t.Fatalf("%s, %s: %v", s.Name, p.Name, err)
			}
			got := bytes.Clone(p.ESP)
			if valid := transform.Open(got, p.High, p.ESN); valid != p.Valid {
				t.Errorf("%s, %s: accepted: %v, want %v", s.Name, p.Name, valid, p.Valid)
			}
			if !p.Valid || p.Text == nil {
				continue
			}
			if text := got[8+s.IVLen : len(got)-s.ICVLen]; !bytes.Equal(text, p.Text) {
				t.Errorf("%s, %s: opened\n got  %x\n want %x", s.Name, p.Name, text, p.Text)
			}
			clear(got[len(got)-s.ICVLen:])
			if transform.Seal(got, p.High, p.ESN); !bytes.Equal(got, p.ESP) {
				t.Errorf("%s, %s: sealed\n got  %x\n want %x", s.Name, p.Name, got, p.ESP)
			}
		}
		if n == 0 {
			t.Errorf("%s: no packets", s.Name)
		}
	}
}
