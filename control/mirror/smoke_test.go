package mirror

import "testing"

func TestSmoke(t *testing.T) {
	w := newWorld(t).start()
	w.want("10.1.0.1", "local", "10.1.0.255", "local", "10.1.0.9", "lan ?", "10.3.0.9", "no port", "8.8.8.8", "none",
		"fd01::1", "local", "fd01::9", "lan ?", "fd03::9", "no port")
	w.ip("route add 8.8.8.0/24 via 10.2.0.2", "neigh add 10.2.0.2 dev wan lladdr 02:00:00:00:00:02")
	w.want("8.8.8.8", "wan 02:00:00:00:00:02", "10.2.0.2", "wan 02:00:00:00:00:02")
	for _, r := range w.m.Routes() {
		t.Log(r)
	}
	t.Logf("%+v", w.m.Status())
	t.Log(w.events, w.locals)
}
