package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

// gatewayConfig uses all sockets and files: of IPsec, of Linux's interfaces, and of a server.
const gatewayConfig = `ports: [lan0, wan0, "guest?"]
engine: cpu
exit: {linux: on}
status: {listen: "127.0.0.1:9274"}
ipsec:
  state: %s
  interface: ipsec0
  sas:
    - {name: a, spi: 0x1000, direction: in, src: 192.0.2.2, dst: 192.0.2.1, suite: null-sha256, auth_key: "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"}
  policies:
    - {direction: in, src: 10.99.0.0/16, dst: 10.98.0.0/16, action: protect, sa: a}
`

// A running gateway has open files of the documented kinds only: after its start, after ports came and went, and with a
// client.
func TestOpenFilesAreDocumented(t *testing.T) {
	document, err := os.ReadFile("../../docs/install.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(document), "| open file |")
	if !found {
		t.Fatal("docs/install.md has no table of open files")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	x := newThird(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "warproute.yaml")
	writeFile(t, path, fmt.Sprintf(gatewayConfig, filepath.Join(dir, "state")))
	r := startRouter(t, x.Router, "--config", path)
	all := map[string]bool{}
	check := func(when string) {
		t.Helper()
		for _, f := range openFiles(t, r.Process.Pid(), dir) {
			all[f] = true
			if !strings.Contains(table, "`"+f+"`") {
				t.Errorf("%s: docs/install.md lacks the open file %s", when, f)
			}
		}
	}
	check("after the start")
	x.plug("guest1")
	r.awaitPorts("lan0", "wan0", "guest1")
	check("with a port that came")
	x.unplug("guest1")
	r.awaitPorts("lan0", "wan0")
	require.NoError(t, x.Router.Do(func() error {
		conn, err := net.DialTimeout("tcp", "127.0.0.1:9274", 5*time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		check("with a client")
		return nil
	}))
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(table, -1) {
		if !all[m[1]] && !strings.HasPrefix(m[1], "/dev/nvidia") {
			t.Errorf("docs/install.md names %s, which is not open", m[1])
		}
	}
}

// socketFamilies are the names of socket families.
var socketFamilies = map[int]string{unix.AF_UNIX: "AF_UNIX", unix.AF_INET: "AF_INET", unix.AF_INET6: "AF_INET6", unix.AF_NETLINK: "AF_NETLINK", unix.AF_XDP: "AF_XDP", unix.AF_PACKET: "AF_PACKET"}

var socketTypes = map[int]string{unix.SOCK_STREAM: "SOCK_STREAM", unix.SOCK_DGRAM: "SOCK_DGRAM", unix.SOCK_RAW: "SOCK_RAW", unix.SOCK_SEQPACKET: "SOCK_SEQPACKET"}

// openFiles returns the kinds of the open files of a process: for sockets family and type, for others what /proc shows,
// without numbers of inodes. Files of the test's directory are in ipsec.state.
func openFiles(t *testing.T, pid int, dir string) (kinds []string) {
	t.Helper()
	pidfd, err := unix.PidfdOpen(pid, 0)
	require.NoError(t, err)
	defer unix.Close(pidfd)
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	for _, name := range names {
		target, err := os.Readlink(name)
		if err != nil { // closed meanwhile
			continue
		}
		var number int
		_, err = fmt.Sscan(filepath.Base(name), &number)
		require.NoError(t, err)
		switch kind, _, _ := strings.Cut(target, ":["); {
		case kind == "socket":
			fd, err := unix.PidfdGetfd(pidfd, number, 0)
			if err != nil {
				continue
			}
			family, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
			typ, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
			unix.Close(fd)
			if kind = socketFamilies[family]; kind != "AF_XDP" && kind != "AF_NETLINK" {
				kind += " " + socketTypes[typ]
			}
			kinds = append(kinds, kind)
		case kind == "pipe":
			kinds = append(kinds, kind)
		case strings.HasPrefix(target, "/proc/") && strings.HasSuffix(target, "/net/dev"):
			kinds = append(kinds, "/proc/net/dev")
		case strings.HasPrefix(target, dir):
			kinds = append(kinds, "ipsec.state")
		default:
			kinds = append(kinds, target)
		}
	}
	return kinds
}
