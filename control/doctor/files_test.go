package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/internal/privilege"
	"github.com/warproute/warproute/internal/require"
)

// openDir returns a directory that all users can enter.
func openDir(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root has the permissions of other users")
	}
	dir, err := os.MkdirTemp("/tmp", "open") // t.TempDir is for its owner only
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// A file that the router's user cannot read, by its own mode or by that of a directory, is named. Root's own access is
// unchanged afterwards.
func TestUnreadableFilesAreNamed(t *testing.T) {
	dir := openDir(t)
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
		case unreadable == "" && found[0].Level != OK, unreadable != "" && (found[0].Level != Fail || !strings.Contains(found[0].Found, unreadable+": permission denied")):
			t.Errorf("%s: %+v, want %q", what, found[0], unreadable)
		}
	}
	check("all are its own", "")
	for _, path := range []string{file, web, key} {
		require.NoError(t, os.Chown(path, 0, -1))
		check("root's file", path)
		require.NoError(t, os.Chown(path, 65534, -1))
	}
	cert, tlsKey := path("cert", ""), path("tls.key", "")
	require.NoError(t, os.Chown(tlsKey, 0, -1))
	require.NoError(t, os.WriteFile(web, []byte("tls_server_config: {cert_file: "+cert+", key_file: "+tlsKey+"}"), 0))
	check("root's TLS key", tlsKey)
	require.NoError(t, os.WriteFile(web, []byte("{}"), 0))
	require.NoError(t, os.Chmod(dir, 0o700))
	t.Chdir(dir) // of which a relative path does not show that users cannot enter it
	text := []byte("ports: [lo]\nprivileges: {user: nobody}")
	require.NoError(t, os.WriteFile("relative.yaml", text, 0o644))
	c, err := config.Load("relative.yaml")
	require.NoError(t, err)
	if found := Files(c); len(found) != 1 || found[0].Level != Fail {
		t.Errorf("a relative path: %+v", found)
	}
	c.Privileges.User = "no such user"
	if found := Files(c); len(found) != 1 || found[0].Level != Fail || !strings.Contains(found[0].Hint, "useradd") {
		t.Errorf("no such user: %+v", found)
	}
	check("root's directory", file)
	if os.Geteuid() != 0 {
		t.Error("the process is not root's afterwards")
	}
}

// What `warproute check` reports of a host is a finding, with its hint.
func TestConfigurationThatDoesNotFitTheHostIsReported(t *testing.T) {
	c, err := config.Parse("c.yaml", []byte("ports: [missing0]\ncontrol: {socket: /no-such-directory/control.sock}\n"))
	require.NoError(t, err)
	found := Configuration(c)
	if len(found) != 1 || Healthy(found) { // Examine reports that there is no interface missing0
		t.Fatalf("%+v", found)
	}
	if f := found[0]; f.Check != "configuration" || !strings.Contains(f.Found, "directory /no-such-directory does not exist") || !strings.HasPrefix(f.Found, "c.yaml:2:") || f.Hint == "" {
		t.Errorf("%+v", f)
	}
}

// The hint for a key that the router's user cannot read is not to write another one.
func TestUnreadableKeyIsNotToBeWritten(t *testing.T) {
	dir := openDir(t)
	file := filepath.Join(dir, "c.yaml")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "k"), []byte(strings.Repeat("0a", 20)), 0o600))
	require.NoError(t, os.WriteFile(file, []byte(`
ports: [lo]
ipsec: {sas: [{name: a, direction: in, spi: 0x1000, src: 192.0.2.1, dst: 192.0.2.2, suite: aes128gcm16, key_file: k}]}
`), 0o644))
	var errs config.Errors
	var loaded error
	require.NoError(t, privilege.AsUser("nobody", func() { _, loaded = config.Load(file) }))
	if !errors.As(loaded, &errs) || len(errs) != 1 || !strings.Contains(errs[0].Msg, "permission denied") || !strings.Contains(errs[0].Hint, "chown") {
		t.Errorf("%v", loaded)
	}
}
