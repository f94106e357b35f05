package ethtool

import (
	"testing"

	"github.com/warproute/warproute/internal/lab"
)

// What the kernel says of interfaces that can tell, of one that cannot, and of none.
func TestQueuesAndDrivers(t *testing.T) {
	ns, err := lab.New("ethtool")
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if _, err := ns.Run("ip", "link", "add", "name", "a0", "numrxqueues", "3", "numtxqueues", "2", "type", "veth", "peer", "name", "b0"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		rx, tx int
		driver string
	}{{"a0", 3, 2, "veth"}, {"lo", 1, 1, ""}} {
		check(t, ns, func() {
			if rx, tx, err := Queues(c.name); rx != c.rx || tx != c.tx || err != nil {
				t.Errorf("%s receives on %d queues and transmits on %d (%v), want %d and %d", c.name, rx, tx, err, c.rx, c.tx)
			}
			if driver, _ := Driver(c.name); driver != c.driver {
				t.Errorf("%s has driver %q, want %q", c.name, driver, c.driver)
			}
		})
	}
	for _, name := range []string{"missing", "name-longer-than-any"} {
		check(t, ns, func() {
			if rx, tx, err := Queues(name); err == nil {
				t.Errorf("%s has %d and %d queues", name, rx, tx)
			}
			if driver, flags := Driver(name); driver != "" || flags != 0 {
				t.Errorf("%s has driver %q, flags %#x", name, driver, flags)
			}
		})
	}
}

func check(t *testing.T, ns *lab.Namespace, f func()) {
	t.Helper()
	if err := ns.Do(func() error { f(); return nil }); err != nil {
		t.Fatal(err)
	}
}
