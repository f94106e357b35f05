// Package scaleout tests docs/howto/scale-out.md: four routers share the flows between two Linux
// routers, which distribute them by ECMP. The configurations and scripts are those of the document.
package scaleout

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

const (
	document = "../../../docs/howto/scale-out.md"
	routers  = 4

	clients = "192.0.2.0/24"
	servers = "198.51.100.0/24"
)

// program is the router, without the race detector: its delays would be longer than those of BFD.
var program string

// fullScale reports whether tests of minutes run (make test-scale).
func fullScale() bool { return os.Getenv("WARPROUTE_SCALE") == "full" }

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if !fullScale() {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "warproute-scaleout")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "warproute")
		build := exec.Command("go", "build", "-o", program, "../../../cmd/warproute")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %v\n%s", build, err, out)
			return 1
		}
		return m.Run()
	}())
}

// blocks returns the files of the document by host and path, and the commands by section.
func blocks(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	all := map[string]string{}
	for _, b := range lab.Blocks(string(text)) {
		name := b.Section
		if _, file, ok := strings.Cut(b.Info, " file "); ok {
			name = file
		} else if b.Info != "sh" {
			continue
		}
		if all[name] != "" {
			t.Fatalf("%s:%d: a second block %q", document, b.Line, name)
		}
		all[name] = b.Text
	}
	return all
}

// bed is the network of the document.
type bed struct {
	*load
	t           *testing.T
	doc         map[string]string
	network     lab.Network
	spine, leaf *node
	router      [routers + 1]*node // from 1
}

// newBed starts spine and leaf, and creates the routers.
func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{t: t, doc: blocks(t)}
	text := "client client0 192.0.2.2/24 -- spine eth0 192.0.2.1/24\nserver server0 198.51.100.2/24 -- leaf eth0 198.51.100.1/24\n"
	for n := 1; n <= routers; n++ {
		text += fmt.Sprintf("spine eth%[1]d 10.1.%[1]d.1/24 -- r%[1]d eth1 10.1.%[1]d.2/24\nleaf eth%[1]d 10.2.%[1]d.1/24 -- r%[1]d eth2 10.2.%[1]d.2/24\n", n)
	}
	text += "client route default 192.0.2.1\nserver route default 198.51.100.1\n"
	for line := range strings.Lines(b.block("spine:/etc/sysctl.d/90-ecmp.conf")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		text += fmt.Sprintf("spine sysctl %[1]s %[2]s\nleaf sysctl %[1]s %[2]s\n", key, value)
	}
	var err error
	b.network, err = lab.Build(lab.VethOptions{}, text)
	require.NoError(t, err)
	t.Cleanup(b.network.Close)
	dir := b.configurations()
	create := func(name string) *node {
		config, err := os.ReadFile(filepath.Join(dir, name+".conf"))
		require.NoError(t, err)
		return newNode(t, name, b.network[name], b.block("spine,leaf,r1,r2,r3,r4:/etc/frr/daemons"), string(config))
	}
	b.spine, b.leaf = create("spine"), create("leaf")
	for n := 1; n <= routers; n++ {
		b.router[n] = create(fmt.Sprint("r", n))
	}
	for _, n := range append(b.router[1:], b.spine, b.leaf) {
		n.startFRR()
	}
	for _, n := range append(b.router[1:], b.spine, b.leaf) {
		n.awaitFRR()
	}
	for n, prefix := range map[*node]string{b.spine: servers, b.leaf: clients} {
		n.startResilient(b.block("spine:/usr/local/sbin/ecmp-resilient"), prefix)
	}
	return b
}

func (b *bed) block(name string) string {
	b.t.Helper()
	if b.doc[name] == "" {
		b.t.Fatalf("%s has no block %q", document, name)
	}
	return b.doc[name]
}

// configurations runs the commands that make the configurations of all nodes of two, and returns
// their directory.
func (b *bed) configurations() (dir string) {
	b.t.Helper()
	dir = b.t.TempDir()
	for _, name := range []string{"spine", "r1"} {
		require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".conf"), []byte(b.block(name+":/etc/frr/frr.conf")), 0o644))
	}
	cmd := exec.Command("sh", "-e", "-c", b.block("Leaf and other routers"))
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// service starts the router of a node, as systemd does.
func (b *bed) service(n int) {
	b.t.Helper()
	b.router[n].startRouter(b.block("r1:/etc/warproute.yaml"), b.block("r1:/etc/systemd/system/warproute.service.d/bgp.conf"))
}

// await waits until spine and leaf have a number of paths, and their groups have followed.
func (b *bed) await(paths int) {
	b.t.Helper()
	for n, prefix := range map[*node]string{b.spine: servers, b.leaf: clients} {
		labtest.Eventually(b.t, 30*time.Second, fmt.Sprintf("%s has %d paths", n.name, paths), func() bool {
			return n.paths(prefix) == paths && (n.resilient == nil || n.members() == paths)
		})
	}
	time.Sleep(2 * interval)
}

// dropped returns the number of frames that queues of links dropped, which happens if the machine stalls.
func (b *bed) dropped() (n int) {
	b.t.Helper()
	for _, ns := range b.network {
		links, err := ns.Netlink().LinkList()
		require.NoError(b.t, err)
		for _, l := range links {
			if s := l.Attrs().Statistics; s != nil {
				n += int(s.RxDropped + s.TxDropped)
			}
		}
	}
	return n
}

// signal sends a signal to the router of a node.
func (b *bed) signal(n int, sig os.Signal) {
	b.t.Helper()
	require.NoError(b.t, b.router[n].router.Process.Signal(sig))
}

// kill ends the router of a node by SIGKILL, and waits for the stop commands of its unit.
func (b *bed) kill(n int) {
	b.t.Helper()
	start := time.Now()
	b.signal(n, os.Kill)
	<-b.router[n].router.Process.Done()
	ended := time.Since(start)
	<-b.router[n].ended
	b.t.Logf("r%d: the router ended after %v, the stop commands of the unit after %v", n, ended.Round(time.Millisecond), time.Since(start).Round(time.Millisecond))
}
