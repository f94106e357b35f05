package guest

import (
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
)

func TestUML(t *testing.T) {
	ns, err := lab.New("g")
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	t0 := time.Now()
	g, err := StartUML(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	t.Log("up", time.Since(t0))
	for _, c := range []string{"uname -a; ls -la /dev/ttyS0; mount; ps aux|tail -5", "true", "cat /proc/net/xfrm_stat", "modprobe -a esp4 esp6 xfrm_user", "ip xfrm state", "sleep 100 & echo x"} {
		t0 = time.Now()
		out, err := g.Run("sh", "-c", c)
		t.Log(c, time.Since(t0), err, "\n"+out)
	}
	t.Log(g.Console())
}
