package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/ipsec/gateway"
)

// SA is a security association: an element of `show sas`.
type SA struct {
	Name        string `json:"name"`         // SA name
	Direction   string `json:"direction"`    // in or out
	Mode        string `json:"mode"`         // tunnel or transport
	SPI         uint32 `json:"spi"`          // security parameters index
	Src         string `json:"src"`          // source address of the ESP packets
	Dst         string `json:"dst"`          // destination address of the ESP packets
	Suite       string `json:"suite"`        // cipher suite
	ESN         bool   `json:"esn"`          // true with extended sequence numbers (RFC 4304)
	Sequence    uint64 `json:"sequence"`     // last sent or highest received sequence number
	Packets     uint64 `json:"packets"`      // encrypted or decrypted packets
	Bytes       uint64 `json:"bytes"`        // encrypted or decrypted bytes
	Replays     uint64 `json:"replays"`      // packets dropped by the replay window
	ICVFailures uint64 `json:"icv_failures"` // packets dropped because the ICV does not match
	PathMTU     int    `json:"path_mtu"`     // path MTU learned from ICMP errors, bytes; 0: the MTU of the port applies
	State       string `json:"state"`        // live or expired
}

// SAs lists the SAs of a gateway by name, direction and SPI. The caller must be the writer of
// the gateway or hold its lock.
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
			Suite: c.Suite, ESN: c.ESN, Sequence: s.Sequence(), Packets: n.Packets, Bytes: n.Bytes, Replays: n.Replays, ICVFailures: n.ICVFailures,
			PathMTU: s.PathMTU(), State: state,
		})
	}
	slices.SortFunc(list, func(a, b SA) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Direction, b.Direction), cmp.Compare(a.SPI, b.SPI))
	})
	return list
}

// WriteSAs writes one row per SA.
func WriteSAs(w io.Writer, list []SA) error {
	t := newTable(w)
	t.row("NAME", "DIRECTION", "SPI", "FROM", "TO", "MODE", "SUITE", "STATE", "PATH MTU", "SEQUENCE", "PACKETS", "BYTES", "REPLAYS", "ICV FAILURES")
	for _, s := range list {
		suite := s.Suite
		if s.ESN {
			suite += "-esn"
		}
		mtu := "-"
		if s.PathMTU != 0 {
			mtu = strconv.Itoa(s.PathMTU)
		}
		t.row(s.Name, s.Direction, fmt.Sprintf("%#x", s.SPI), s.Src, s.Dst, s.Mode, suite, s.State, mtu, s.Sequence, s.Packets, s.Bytes, s.Replays, s.ICVFailures)
	}
	return t.flush()
}

// Policy is an element of `show policies`.
type Policy struct {
	Number    int    `json:"number"`            // position from 1; the first matching policy applies
	Direction string `json:"direction"`         // in or out
	IfID      uint32 `json:"if_id,omitempty"`   // of the XFRM interface whose packets it is for
	Selector  string `json:"selector"`          // selector of matching packets
	Action    string `json:"action"`            // protect, bypass, discard or refuse
	SA        string `json:"sa,omitempty"`      // name of the SA
	Refusal   string `json:"refusal,omitempty"` // reason why the policy is unsupported and drops matching packets
}

// Policies lists the policies of a gateway in order.
func Policies(g *gateway.Gateway) []Policy {
	list := []Policy{}
	for i, r := range g.Rules() {
		list = append(list, Policy{i + 1, r.Direction.String(), r.IfID, r.Policy.String(), r.Action.String(), r.Name, r.Refusal})
	}
	return list
}

// WritePolicies writes one row per policy, then the reasons for refused policies.
func WritePolicies(w io.Writer, list []Policy) error {
	t := newTable(w)
	t.row("NUMBER", "DIRECTION", "IF_ID", "SELECTOR", "ACTION", "SA")
	for _, p := range list {
		id := "-"
		if p.IfID != 0 {
			id = strconv.FormatUint(uint64(p.IfID), 10)
		}
		t.row(p.Number, p.Direction, id, p.Selector, p.Action, p.SA)
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, p := range list {
		if p.Refusal == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "policy %d refused, drops matching packets as %v: %s\n", p.Number, batch.XfrmPolicyRefused, p.Refusal); err != nil {
			return err
		}
	}
	return nil
}
