package web

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

func TestUnixSocketIsForItsGroupAndRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.sock")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	require.NoError(t, err)
	stale.SetUnlinkOnClose(false)
	stale.Close()
	e := Endpoint{Key: "metrics.listen", Listen: "unix:" + path, Connections: 8,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "forwarding") })}
	s, err := Serve(e)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	if mode := info.Mode().Perm(); mode != 0o660 {
		t.Errorf("mode %v", mode)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", path) }}}
	if status, body, err := get(client, "http://router/", "", ""); status != 200 || body != "forwarding" {
		t.Errorf("%d, %q, %v", status, body, err)
	}
	if second, err := Serve(e); err == nil {
		second.Close()
		t.Error("two servers share a socket")
	} else if !strings.Contains(err.Error(), "another process") || !strings.Contains(err.Error(), "metrics.listen") {
		t.Error(err)
	}
	beside, err := s.ServeBeside(Endpoint{Key: "metrics.listen", Listen: "127.0.0.1:0", Handler: e.Handler})
	require.NoError(t, err)
	require.NoError(t, beside.Close())
	require.NoError(t, s.Close())
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket remains: %v", err)
	}
}

// Between bind(2) and chmod(2) others cannot connect either.
func TestUnixSocketIsNeverForOthers(t *testing.T) {
	for _, mask := range []int{0, 0o022, 0o077} {
		path := filepath.Join(t.TempDir(), "metrics.sock")
		old := unix.Umask(mask)
		l, err := bindUnix(path)
		unix.Umask(old)
		require.NoError(t, err)
		info, err := os.Stat(path)
		require.NoError(t, err)
		if mode := info.Mode().Perm(); mode != 0o660&^os.FileMode(mask) {
			t.Errorf("umask %#o: mode %v", mask, mode)
		}
		l.Close()
	}
}

func TestUnixSocketReplacesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.sock")
	write(t, path, "precious")
	if s, err := Serve(Endpoint{Key: "metrics.listen", Listen: "unix:" + path}); err == nil {
		s.Close()
		t.Error("a file is replaced by a socket")
	} else if !strings.Contains(err.Error(), "not a socket") {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); string(text) != "precious" {
		t.Errorf("%q, %v", text, err)
	}
}
