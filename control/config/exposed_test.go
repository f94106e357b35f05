package config

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// writeMode writes a configuration to a file with a mode and returns its path.
func writeMode(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "w.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	require.NoError(t, os.Chmod(path, mode))
	return path
}

func TestInlineKeysNeedAPrivateFile(t *testing.T) {
	withoutAEAD := strings.Replace(tunnel, "      key: "+keyA+"\n", "      key_file: /no/such/key\n", 1)
	for _, mode := range []os.FileMode{0o644, 0o640, 0o604, 0o620, 0o602, 0o610} {
		path := writeMode(t, tunnel, mode)
		_, err := Load(path)
		want := fmt.Sprintf("%s:10:12: ipsec.sas[0].key: inline key, but %s is accessible to other users (mode %04o); chmod 600 %s, or move the key to a separate file (key_file)", path, path, mode, path)
		if err == nil || err.Error() != want {
			t.Errorf("got\n%v\nwant\n%s", err, want)
		}
		if strings.Contains(fmt.Sprint(err), keyA) {
			t.Error("the error reveals the key")
		}
		if _, err := Load(writeMode(t, withoutAEAD, mode)); err == nil || !strings.Contains(err.Error(), "ipsec.sas[1].key: inline key, but") {
			t.Errorf("mode %04o, a later key: %v", mode, err)
		}
	}
	for _, mode := range []os.FileMode{0o600, 0o400} {
		if _, err := Load(writeMode(t, tunnel, mode)); err != nil {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
	if _, err := Load(writeMode(t, onePort, 0o644)); err != nil {
		t.Errorf("without keys, readable by all: %v", err)
	}
}

// ownedBy is the info of a file with another owner.
type ownedBy struct {
	fs.FileInfo
	uid uint32
}

func (o ownedBy) Sys() any { return &syscall.Stat_t{Uid: o.uid} }

func TestKeysOfOtherOwnersAreRefused(t *testing.T) {
	info, err := os.Stat(writeMode(t, "", 0o600))
	require.NoError(t, err)
	me := os.Geteuid()
	for uid, want := range map[uint32]string{0: "", uint32(me): "", uint32(me) + 12345: fmt.Sprintf("k is owned by user %d, who can change it", me+12345)} {
		if why, _ := exposed("k", ownedBy{info, uid}, ""); why != want {
			t.Errorf("owner %d: %q, want %q", uid, why, want)
		}
	}
	if me != 0 {
		return // only root can change the owner
	}
	chown := func(t *testing.T, path string, uid int) {
		t.Helper()
		require.NoError(t, os.Chown(path, uid, -1))
	}
	owner := "0"
	if _, err := user.Lookup(ServiceUser); err == nil {
		owner = ServiceUser
	}
	path := fileTest(t, keyA, 0o600)
	key := filepath.Join(filepath.Dir(path), "k")
	chown(t, key, 12345)
	checkLoad(t, path, fmt.Sprintf("DIR/k is owned by user 12345, who can change it; chown %s DIR/k", owner))
	chown(t, key, 0)
	if _, err := Load(path); err != nil {
		t.Errorf("owned by root: %v", err)
	}
	inline := writeMode(t, tunnel, 0o600)
	chown(t, inline, 12345)
	if _, err := Load(inline); err == nil || !strings.Contains(err.Error(), inline+" is owned by user 12345, who can change it; chown ") {
		t.Errorf("inline key, another owner: %v", err)
	}
}

func TestKeysBehindLinksAreRefused(t *testing.T) {
	path := fileTest(t, keyA, 0o600)
	dir := filepath.Dir(path)
	require.NoError(t, os.Rename(filepath.Join(dir, "k"), filepath.Join(dir, "real")))
	for _, target := range []string{"real", filepath.Join(dir, "real"), "missing", "/dev/zero"} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, "k")))
		checkLoad(t, path, "DIR/k is a symbolic link; write the path of its target: the owner of the link could change it to another key")
		require.NoError(t, os.Remove(filepath.Join(dir, "k")))
	}
}
