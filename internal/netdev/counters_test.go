package netdev_test

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/internal/require"
)

// The counters are those of the namespace in which the file was opened, wherever they are read.
func TestCountersOfInterfaces(t *testing.T) {
	ns, err := lab.New("counters")
	require.NoError(t, err)
	defer ns.Close()
	require.NoError(t, lab.Veth(lab.End{Namespace: ns, Name: "counted0"}, lab.End{Namespace: ns, Name: "b0"}, lab.VethOptions{}))
	for _, name := range []string{"counted0", "b0"} {
		_, err := ns.Run("ip", "link", "set", name, "up")
		require.NoError(t, err)
	}
	var file *netdev.CounterFile
	require.NoError(t, ns.Do(func() (err error) {
		file, err = netdev.OpenCounters()
		return err
	}))
	before, err := file.Read()
	require.NoError(t, err)
	fd, err := ns.PacketSocket("b0")
	require.NoError(t, err)
	defer unix.Close(fd)
	const frames = 5
	for range frames { // of a protocol that nothing receives
		require.NoError(t, unix.Sendto(fd, append([]byte{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 0x88, 0xb6}, make([]byte, 46)...), 0, nil))
	}
	labtest.Eventually(t, 5*time.Second, "Linux counts the frames that it drops", func() bool {
		now, err := file.Read()
		require.NoError(t, err)
		got := now["counted0"]
		return got.RxPackets >= frames && got.RxDropped-before["counted0"].RxDropped >= frames && got.TxDropped == 0
	})
	if _, ok := before["lo"]; !ok || before["b0"].RxDropped != 0 {
		t.Errorf("interfaces %v", before)
	}
	require.NoError(t, file.Close())
	if _, err := file.Read(); err == nil || !strings.Contains(err.Error(), "read the counters of interfaces") {
		t.Errorf("a closed file: %v", err)
	}
}
