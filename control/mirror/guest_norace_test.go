//go:build !race

package mirror

import (
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab/guest"
)

// VLANs and VRFs are tested in a virtual machine: the kernel of a development host may lack them.

func TestVLANs(t *testing.T) {
	guest.InVM(t, 150*time.Second, []string{"veth", "8021q", "vrf"}, func(t *testing.T, _ string) {
		t.Run("exists", testVLANIsPortWhileItExists)
		t.Run("parent", testVLANFollowsItsParent)
		t.Run("nested", testNestedVLANs)
		t.Run("added port", testVLANsOfAnAddedPort)
		t.Run("namespace", testVLANMovesToAnotherNamespace)
		t.Run("random", testRandomVLANChanges)
	})
}

func TestVRFs(t *testing.T) {
	guest.InVM(t, 150*time.Second, []string{"veth", "8021q", "vrf"}, func(t *testing.T, _ string) {
		t.Run("table", testPortUsesTableOfItsVRF)
		t.Run("leaking", testRoutesLeakBetweenVRFs)
		t.Run("down", testLinkThatIsDownEntersVRF)
		t.Run("again", testVRFIsCreatedAgain)
		t.Run("refused", testTablesOfTheRouterAreNoVRFs)
		t.Run("VLAN", testVLANInVRF)
		t.Run("random", testRandomVRFChanges)
	})
}
