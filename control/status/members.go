package status

import (
	"fmt"
	"strings"
)

// Member is the state of a physical port as a member of a bond.
type Member struct {
	Name     string `json:"name"`     // configured interface
	State    string `json:"state"`    // active: it transmits flows of the bond; inactive; released: not a member now
	Receives bool   `json:"receives"` // true if its frames are the bond's
}

// States of members.
const (
	MemberActive   = "active"
	MemberInactive = "inactive"
	MemberReleased = "released"
)

// membersText describes the members of a bond.
func membersText(all []Member) string {
	var texts []string
	for _, m := range all {
		texts = append(texts, fmt.Sprintf("%s (%s)", m.Name, m.State))
	}
	return strings.Join(texts, ", ")
}
