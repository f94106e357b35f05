package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/internal/require"
)

// A file that the router's user cannot read, by its own mode or by that of a directory, is named. Root's own access is
// unchanged afterwards.
func TestUnreadableFilesAreNamed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root has the permissions of other users")
	}
	dir, err := os.MkdirTemp("/tmp", "readable") // t.TempDir is for its owner only
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	path := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.NoError(t, os.Chown(path, 65534, -1))
		return path
	}
	web, key := path("web.yaml", "{}"), path("k", strings.Repeat("0a", 20))
	file := path("c.yaml", `
ports: [lo]
privileges: {user: nobody}
metrics: {listen: "127.0.0.1:1", web_config: `+web+`}
ipsec:
  sas:
    - {name: a, direction: in, spi: 0x1000, src: 192.0.2.1, dst: 192.0.2.2, suite: aes128gcm16, key_file: k}
`)
	check := func(what, unreadable string) {
		t.Helper()
		c, err := config.Load(file)
		require.NoError(t, err)
		found := Files(c)
		switch {
		case len(found) != 1:
			t.Errorf("%s: %v", what, found)
		case unreadable == "" && found[0].Level != OK, unreadable != "" && (found[0].Level != Warn || !strings.Contains(found[0].Found, unreadable+": permission denied")):
			t.Errorf("%s: %+v, want %q", what, found[0], unreadable)
		}
	}
	check("all are its own", "")
	for _, path := range []string{file, web, key} {
		require.NoError(t, os.Chown(path, 0, -1))
		check("root's file", path)
		require.NoError(t, os.Chown(path, 65534, -1))
	}
	require.NoError(t, os.Chmod(dir, 0o700))
	check("root's directory", file)
	if os.Geteuid() != 0 {
		t.Error("the process is not root's afterwards")
	}
	if _, err := unreadable([]string{file}, "no such user"); err == nil {
		t.Error("no error for a user that does not exist")
	}
}
