package status

import (
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

func TestPortsNameLostTags(t *testing.T) {
	s := sample()
	s.Ports[1].LostTags = "the NIC strips VLAN tags before XDP"
	var b strings.Builder
	require.NoError(t, WritePorts(&b, Ports(s)))
	if want := "wan0: the NIC strips VLAN tags before XDP\n"; !strings.Contains(b.String(), want) || strings.Count(b.String(), "VLAN tags") != 1 {
		t.Errorf("no line %q in\n%s", want, &b)
	}
}
