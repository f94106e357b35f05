package config

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// writeMode puts the configuration with inline keys, or another, into a file of a mode.
func writeMode(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "w.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInlineKeysNeedAPrivateFile(t *testing.T) {
	withoutAEAD := strings.Replace(tunnel, "      key: "+keyA+"\n", "      key_file: /no/such/key\n", 1)
	for _, mode := range []os.FileMode{0o644, 0o640, 0o604, 0o620, 0o602, 0o610} {
		path := writeMode(t, tunnel, mode)
		_, err := Load(path)
		want := fmt.Sprintf("%s:10:12: ipsec.sas[0].key: there is a key in the configuration, and %s is open to others than its owner (mode %04o); chmod 600 %s, or write the key to a file of its own (key_file)", path, path, mode, path)
		if err == nil || err.Error() != want {
			t.Errorf("got\n%v\nwant\n%s", err, want)
		}
		if strings.Contains(fmt.Sprint(err), keyA) {
			t.Error("the error has the key")
		}
		if _, err := Load(writeMode(t, withoutAEAD, mode)); err == nil || !strings.Contains(err.Error(), "ipsec.sas[1].key: there is a key in the configuration") {
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

// ownedBy is what a file of another owner says of itself.
type ownedBy struct {
	fs.FileInfo
	uid uint32
}

func (o ownedBy) Sys() any { return &syscall.Stat_t{Uid: o.uid} }

func TestKeysOfOtherOwnersAreRefused(t *testing.T) {
	info, err := os.Stat(writeMode(t, "", 0o600))
	if err != nil {
		t.Fatal(err)
	}
	me := os.Geteuid()
	for uid, want := range map[uint32]string{0: "", uint32(me): "", uint32(me) + 12345: fmt.Sprintf("k belongs to user %d, who can change it", me+12345)} {
		if why, _ := exposed("k", ownedBy{info, uid}); why != want {
			t.Errorf("of user %d: %q, want %q", uid, why, want)
		}
	}
	if me != 0 {
		return // only root can make files of others
	}
	chown := func(t *testing.T, path string, uid int) {
		t.Helper()
		if err := os.Chown(path, uid, -1); err != nil {
			t.Fatal(err)
		}
	}
	path := fileTest(t, keyA, 0o600)
	key := filepath.Join(filepath.Dir(path), "k")
	chown(t, key, 12345)
	checkLoad(t, path, fmt.Sprintf("DIR/k belongs to user 12345, who can change it; chown %d DIR/k", os.Geteuid()))
	chown(t, key, 0)
	if _, err := Load(path); err != nil {
		t.Errorf("root's: %v", err)
	}
	inline := writeMode(t, tunnel, 0o600)
	chown(t, inline, 12345)
	if _, err := Load(inline); err == nil || !strings.Contains(err.Error(), inline+" belongs to user 12345, who can change it; chown ") {
		t.Errorf("inline, of another owner: %v", err)
	}
}

func TestKeysBehindLinksAreRefused(t *testing.T) {
	path := fileTest(t, keyA, 0o600)
	dir := filepath.Dir(path)
	if err := os.Rename(filepath.Join(dir, "k"), filepath.Join(dir, "real")); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"real", filepath.Join(dir, "real"), "missing", "/dev/zero"} {
		if err := os.Symlink(target, filepath.Join(dir, "k")); err != nil {
			t.Fatal(err)
		}
		checkLoad(t, path, "DIR/k is a symbolic link; name the file itself; who owns the link could point it to another key")
		if err := os.Remove(filepath.Join(dir, "k")); err != nil {
			t.Fatal(err)
		}
	}
}
