package status

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/ipsec/gateway"
)

// SA is a security association in the answer of `show sas`.
type SA struct {
	Name      string `json:"name"`
	Direction string `json:"direction"`
	Mode      string `json:"mode"`
	SPI       uint32 `json:"spi"`
	Src       string `json:"src"`
	Dst       string `json:"dst"`
	Suite     string `json:"suite"`
	ESN       bool   `json:"esn"`
	Sequence  uint64 `json:"sequence"` // sent last, or the highest received
	Packets   uint64 `json:"packets"`
	Bytes     uint64 `json:"bytes"`
	Replays   uint64 `json:"replays"`
	Forgeries uint64 `json:"forgeries"`
	PathMTU   int    `json:"path_mtu"` // of the way to a tunnel's other end where routers said that it is narrow; 0: the port's
	State     string `json:"state"`    // live, or expired
}

// SAs lists the associations of a gateway by name, direction and SPI. It is for whoever
// changes the gateway, or keeps others from it.
func SAs(g *gateway.Gateway) []SA {
	list := []SA{}
	for s := range g.All {
		c, n := s.Config(), s.Stats()
		state := "live"
		if s.HardExpired() {
			state = "expired"
		}
		list = append(list, SA{
			Name: c.Name, Direction: c.Direction.String(), Mode: c.Mode.String(), SPI: c.SPI, Src: c.Src.String(), Dst: c.Dst.String(),
			Suite: c.Suite, ESN: c.ESN, Sequence: s.Sequence(), Packets: n.Packets, Bytes: n.Bytes, Replays: n.Replays, Forgeries: n.Forgeries,
			PathMTU: s.PathMTU(), State: state,
		})
	}
	slices.SortFunc(list, func(a, b SA) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		if c := strings.Compare(a.Direction, b.Direction); c != 0 {
			return c
		}
		return int(a.SPI) - int(b.SPI)
	})
	return list
}

// WriteSAs writes a line for each association.
func WriteSAs(w io.Writer, list []SA) error {
	t := newTable(w)
	t.row("NAME", "DIRECTION", "SPI", "FROM", "TO", "MODE", "SUITE", "STATE", "PATH MTU", "SEQUENCE", "PACKETS", "BYTES", "REPLAYS", "FORGERIES")
	for _, s := range list {
		suite := s.Suite
		if s.ESN {
			suite += "-esn"
		}
		mtu := "-"
		if s.PathMTU != 0 {
			mtu = strconv.Itoa(s.PathMTU)
		}
		t.row(s.Name, s.Direction, fmt.Sprintf("%#x", s.SPI), s.Src, s.Dst, s.Mode, suite, s.State, mtu, s.Sequence, s.Packets, s.Bytes, s.Replays, s.Forgeries)
	}
	return t.flush()
}

// Policy is a line of the answer of `show policies`.
type Policy struct {
	Number    int    `json:"number"` // the first that matches decides
	Direction string `json:"direction"`
	Selector  string `json:"selector"`
	Action    string `json:"action"`
	SA        string `json:"sa,omitempty"`
	Refusal   string `json:"refusal,omitempty"` // why the policy cannot be followed, and drops what it matches
}

// Policies lists the policies of a gateway in their order.
func Policies(g *gateway.Gateway) []Policy {
	list := []Policy{}
	for i, r := range g.Rules() {
		list = append(list, Policy{i + 1, r.Direction.String(), r.Policy.String(), r.Action.String(), r.Name, r.Refusal})
	}
	return list
}

// WritePolicies writes a line for each policy, and below the table why some are refused.
func WritePolicies(w io.Writer, list []Policy) error {
	t := newTable(w)
	t.row("NUMBER", "DIRECTION", "SELECTOR", "ACTION", "SA")
	for _, p := range list {
		t.row(p.Number, p.Direction, p.Selector, p.Action, p.SA)
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, p := range list {
		if p.Refusal == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "policy %d is refused, and drops what it matches as %v: %s\n", p.Number, batch.XfrmPolicyRefused, p.Refusal); err != nil {
			return err
		}
	}
	return nil
}
