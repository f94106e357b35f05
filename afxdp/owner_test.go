package afxdp

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/umem"
)

// owners lists two ways in which another process can own an interface.
var owners = []struct {
	name string
	take func(t *testing.T) io.Closer
	want string // error while it owns the interface
}{
	{
		"router", func(t *testing.T) io.Closer {
			s, err := Open(Config{Ports: ports(Native, "ra"), Workers: []WorkerMemory{newWorker(t, 64)}, RingSize: 64})
			require.NoError(t, err)
			return s
		},
		"open port ra: attach the XDP program in native mode: failed to attach link: create link: device or resource busy" +
			": Can't replace active BPF XDP link (the interface has XDP program N (steer), held by BPF link N of afxdp.test (pid N)" +
			": stop afxdp.test (pid N), or: sudo bpftool link detach id N)",
	},
	{
		"socket", func(t *testing.T) io.Closer {
			s := &socket{}
			require.NoError(t, s.open(newWorker(t, 64).Memory, true, 64))
			l, err := netlink.LinkByName("ra")
			if err == nil {
				err = s.bind(l.Attrs().Index, 0, false, false, s, time.Now())
			}
			require.NoError(t, err)
			return closer(s.close)
		},
		"open queue 0 of port ra: bind copy: device or resource busy" +
			" (another process has an AF_XDP socket on the queue: stop it)",
	},
}

// identifiers matches numbers that the kernel chose.
var identifiers = regexp.MustCompile(`(program|link|pid|id) \d+`)

type closer func() error

func (c closer) Close() error { return c() }

// TestOpenWaitsForFormerOwner opens a port that its previous owner closes a little later.
func TestOpenWaitsForFormerOwner(t *testing.T) {
	for _, owner := range owners {
		t.Run(owner.name, func(t *testing.T) {
			enterNamespace(t)
			addVeth(t, "ra", "a", 1)
			o := owner.take(t)
			closed := make(chan error)
			go func() {
				time.Sleep(200 * time.Millisecond)
				closed <- o.Close()
			}()
			start := time.Now()
			s := open(t, Config{Ports: ports(Native, "ra"), Workers: []WorkerMemory{newWorker(t, 64)}, RingSize: 64})
			if took := time.Since(start); took < 150*time.Millisecond {
				t.Errorf("opened after %v, while the former owner had the port", took)
			}
			require.NoError(t, <-closed)
			works(t, s)
		})
	}
}

// TestOpenWhileOwned gives up after busyTimeout, with a hint.
func TestOpenWhileOwned(t *testing.T) {
	for _, owner := range owners {
		t.Run(owner.name, func(t *testing.T) {
			t.Parallel()
			enterNamespace(t)
			addVeth(t, "ra", "a", 1)
			defer owner.take(t).Close()
			start := time.Now()
			_, err := Open(Config{Ports: ports(Native, "ra"), Workers: []WorkerMemory{newWorker(t, 64)}, RingSize: 64})
			is := strings.Replace(fmt.Sprint(err), "(steer_stripped)", "(steer)", 1) // as kernel and driver permit
			if err == nil || identifiers.ReplaceAllString(is, "$1 N") != owner.want {
				t.Errorf("error:\n got %v\nwant %s", err, owner.want)
			}
			if !errors.Is(err, unix.EBUSY) {
				t.Error("the error is not EBUSY to errors.Is")
			}
			if took := time.Since(start); took < busyTimeout*8/10 || took > 3*busyTimeout {
				t.Errorf("gave up after %v, want about %v", took, busyTimeout)
			}
		})
	}
}

// TestKilledProcessLeavesNoProgram kills a process that has ports open: no XDP program stays, and the
// ports can be opened at once.
func TestKilledProcessLeavesNoProgram(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	addVeth(t, "rb", "b", 1)
	child := exec.Command("/proc/self/exe") // in the namespace of this thread
	child.Env = append(os.Environ(), childEnv+"=ra,rb")
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	defer child.Process.Kill()
	ready := make([]byte, len(childReady))
	_, readErr := io.ReadFull(out, ready)
	if !attached(t, "ra") || !attached(t, "rb") {
		t.Errorf("the child attached no program: %v", readErr)
	}
	require.NoError(t, child.Process.Kill())
	child.Wait()
	if attached(t, "ra") || attached(t, "rb") {
		t.Error("an XDP program is left after the process was killed")
	}
	works(t, open(t, Config{Ports: ports(Native, "ra", "rb"), Workers: []WorkerMemory{newWorker(t, 64)}, RingSize: 64}))
}

const childEnv, childReady = "AFXDP_TEST_CHILD", "ready"

// TestMain is also the child of TestKilledProcessLeavesNoProgram, which opens ports and waits.
func TestMain(m *testing.M) {
	names := os.Getenv(childEnv)
	if names == "" {
		os.Exit(m.Run())
	}
	memory, err := umem.New(64)
	if err == nil {
		_, err = Open(Config{
			Ports:    ports(Native, strings.Split(names, ",")...),
			Workers:  []WorkerMemory{{Memory: memory, Pool: umem.NewPool(memory)}},
			RingSize: 64,
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print(childReady)
	time.Sleep(time.Minute)
}
