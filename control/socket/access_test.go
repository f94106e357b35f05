package socket

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// clientVar makes the test binary a client of the socket that it names.
const clientVar = "SOCKET_TEST_CLIENT"

func TestMain(m *testing.M) {
	if path := os.Getenv(clientVar); path != "" {
		for _, resource := range []string{"/ports", "/capture"} {
			var out any
			println(resource, errorText(Get(context.Background(), path, resource, &out)))
		}
		var out any
		for _, resource := range []string{"/reload", "/upgrade"} {
			println(resource, errorText(Post(context.Background(), path, resource, &out)))
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func errorText(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}

// Members of the group read; root and the user of the router may do everything; others cannot connect. Requests for
// more than reading are logged with user and process.
func TestGroupMayReadOnly(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to become other users")
	}
	dir, err := os.MkdirTemp("", "socket") // t.TempDir is in a directory of root
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o755))
	program, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	client := filepath.Join(dir, "client")
	require.NoError(t, os.WriteFile(client, program, 0o755))

	var log bytes.Buffer
	is := func(*http.Request) (any, error) { return "answer", nil }
	const group, member, other = 4242, 4001, 4002
	p := filepath.Join(dir, "w.sock")
	s, err := Serve(p, map[string]Handler{"/ports": is}, Access{Group: group, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Full: map[string]Handler{"/capture": is, "POST /reload": is, "POST /upgrade": is}})
	require.NoError(t, err)

	ask := func(uid, gid uint32) string {
		c := exec.Command(client)
		c.Env = append(os.Environ(), clientVar+"="+p)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
		out, err := c.CombinedOutput()
		require.NoError(t, err)
		return string(out)
	}
	refusal := "is for root and the user of the router (uid 0) only, not for uid 4001: use sudo"
	if got, want := ask(member, group), "/ports ok\n/capture /capture "+refusal+"\n/reload /reload "+refusal+"\n/upgrade /upgrade "+refusal+"\n"; got != want {
		t.Errorf("a member of the group:\n%swant\n%s", got, want)
	}
	if got, want := ask(0, 0), "/ports ok\n/capture ok\n/reload ok\n/upgrade ok\n"; got != want {
		t.Errorf("root:\n%swant\n%s", got, want)
	}
	if got := ask(other, other); strings.Count(got, "permission denied") != 4 {
		t.Errorf("another user:\n%s", got)
	}
	s.Close()
	for _, want := range []string{
		`msg="control request refused" request="POST /reload" uid=4001 pid=`, `msg="control request refused" request="GET /capture" uid=4001 pid=`,
		`msg="control request" request="POST /upgrade" uid=0 pid=`, `msg="control request refused" request="POST /upgrade" uid=4001 pid=`,
		`msg="control request" request="POST /reload" uid=0 pid=`, `msg="control request" request="GET /capture" uid=0 pid=`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %s:\n%s", want, &log)
		}
	}
	if strings.Contains(log.String(), "/ports") {
		t.Errorf("reading is logged:\n%s", &log)
	}
}
