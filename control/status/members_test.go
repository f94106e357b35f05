package status

import (
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// The table of ports has the members of a bond with their states, and a member names its bond.
func TestPortsNameMembersOfBonds(t *testing.T) {
	bond := PortState{Name: "bond0", Members: []Member{{"wan0", MemberActive, true}, {"wan1", MemberInactive, false}, {"wan2", MemberReleased, false}}}
	ports := []Port{{PortState: PortState{Name: "wan0", Bond: "bond0"}}, {PortState: bond}}
	var b strings.Builder
	require.NoError(t, WritePorts(&b, ports))
	for _, line := range []string{"wan0: member of bond0\n", "bond0: bond of wan0 (active), wan1 (inactive), wan2 (released)\n"} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("no line %q in\n%s", line, &b)
		}
	}
	if ports[0].Logical() || !bond.Logical() || keyOf(&bond) != (portKey{index: bond.Index}) {
		t.Error("a member is logical, or a bond is not")
	}
}
