package doctor

import (
	"slices"
	"testing"

	"github.com/warproute/warproute/control/config"
)

func TestSelectedReportsEveryInterface(t *testing.T) {
	all := []config.Selection{
		{Interface: "eth0", Taken: true, Reason: "matches auto"},
		{Interface: "eth1", Reason: "member of bridge br0"},
	}
	found := Selected(all)
	if len(found) != 2 || found[0].Found != "a port: matches auto" || found[1].Found != "not a port: member of bridge br0" || found[1].Port != "eth1" || !Healthy(found) {
		t.Errorf("%+v", found)
	}
	if names := TakenPorts(all); !slices.Equal(names, []string{"eth0"}) {
		t.Errorf("taken: %q", names)
	}
	if found = Selected(all[1:]); len(found) != 2 || found[1].Level != Warn {
		t.Errorf("without a port: %+v", found)
	}
	if found = Selected(nil); found != nil {
		t.Errorf("without a configuration: %+v", found)
	}
}
