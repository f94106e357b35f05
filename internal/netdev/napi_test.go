package netdev_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/bench/xdpgen"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/internal/require"
)

// Threaded NAPI of a veth with two queues: cores and priority are set, and restored.
func TestThreadNAPI(t *testing.T) {
	ns, err := lab.New("napi")
	require.NoError(t, err)
	defer ns.Close()
	require.NoError(t, lab.Veth(lab.End{Namespace: ns, Name: "a"}, lab.End{Namespace: ns, Name: "b"}, lab.VethOptions{Queues: 2}))
	link, err := ns.Link("a")
	require.NoError(t, err)
	index := link.Attrs().Index
	err = ns.Do(func() error {
		if _, err := netdev.ThreadNAPI("a", index, func(int) int { return 0 }, 0); err == nil || !strings.Contains(err.Error(), "no NAPI") {
			t.Errorf("a link without NAPI: %v", err)
		}
		p, err := xdpgen.AttachPass(index)
		if err != nil {
			return err
		}
		defer p.Close()
		restore, err := netdev.ThreadNAPI("a", index, func(q int) int { return q }, 3)
		if err != nil {
			return err
		}
		pids, err := netdev.NAPIThreads(index)
		if err != nil || len(pids) != 2 {
			t.Fatalf("threads %v (%v), want two", pids, err)
		}
		for q, pid := range pids {
			var set unix.CPUSet
			attr, err := unix.SchedGetAttr(pid, 0)
			if err != nil || attr.Policy != unix.SCHED_FIFO || attr.Priority != 3 {
				t.Errorf("queue %d: scheduled %+v (%v)", q, attr, err)
			}
			if err := unix.SchedGetaffinity(pid, &set); err != nil || set.Count() != 1 || !set.IsSet(q) {
				t.Errorf("queue %d: on %v (%v)", q, set, err)
			}
			if comm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm"); err != nil || !strings.HasPrefix(string(comm), "napi/a-") {
				t.Errorf("queue %d: thread %q (%v)", q, comm, err)
			}
		}
		if err := restore(); err != nil {
			return err
		}
		if pids, err = netdev.NAPIThreads(index); err != nil || len(pids) != 0 {
			t.Errorf("threads %v (%v) after restore", pids, err)
		}
		return nil
	})
	require.NoError(t, err)
}
