package netdev_test

import (
	"testing"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/internal/require"
)

func TestQueuesAndDriversOfTheKernel(t *testing.T) {
	ns, err := lab.New("ethtool")
	require.NoError(t, err)
	defer ns.Close()
	if _, err := ns.Run("ip", "link", "add", "name", "a0", "numrxqueues", "3", "numtxqueues", "2", "type", "veth", "peer", "name", "b0"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		rx, tx int
		driver string
		fails  bool
	}{
		{"a0", 3, 2, "veth", false}, {"lo", 1, 1, "", false},
		{"missing", 0, 0, "", true}, {"name-longer-than-any", 0, 0, "", true},
	} {
		err := ns.Do(func() error {
			if rx, tx, err := netdev.Queues(c.name); rx != c.rx || tx != c.tx || (err != nil) != c.fails {
				t.Errorf("%s: %d receive and %d transmit queues (%v), want %d and %d", c.name, rx, tx, err, c.rx, c.tx)
			}
			if d := netdev.DriverOf(c.name); d.Name != c.driver || c.fails && d.Flags != 0 {
				t.Errorf("%s: driver %+v, want %q", c.name, d, c.driver)
			}
			return nil
		})
		require.NoError(t, err)
	}
}

// virtio_net receives on the queue pairs that it enables for XDP, too: a queue without a socket would
// lose its packets. internal/e2e/nics compares with the driver.
func TestVirtioHasMoreQueuesWithXDP(t *testing.T) {
	for _, c := range []struct {
		driver                string
		now, most, cpus, want int
	}{
		{"virtio_net", 2, 4, 2, 4},
		{"virtio_net", 2, 8, 2, 4},
		{"virtio_net", 1, 1, 2, 1}, // too few: transmission by XDP locks
		{"virtio_net", 2, 3, 2, 2},
		{"igb", 2, 4, 2, 2},
		{"", 1, 1, 2, 1},
	} {
		if got := netdev.QueuesWithXDPOf(c.driver, c.now, c.most, c.cpus); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
