package config

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

func TestKeysAreNotPrinted(t *testing.T) {
	c, err := Parse("f", []byte(tunnel))
	require.NoError(t, err)
	k := c.IPsec.SAs[0].Key
	b := k.Bytes()
	spellings := []string{hex.EncodeToString(b[8:12]), strings.Trim(fmt.Sprint(b[8:12]), "[]"), strings.Trim(fmt.Sprintf("%#v", b[8:12]), "[]byte{}"), string(b[8:12])}
	check := func(how, text string) {
		for _, s := range spellings {
			if strings.Contains(strings.ToLower(text), s) {
				t.Errorf("%s prints the key: %s", how, text)
			}
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%c"} {
		for _, v := range []any{k, &k, c.IPsec.SAs[0], &c.IPsec.SAs[0], c, struct{ hidden SA }{c.IPsec.SAs[0]}, map[string]Key{"k": k}} {
			check(fmt.Sprintf("%s of %T", verb, v), fmt.Sprintf(verb, v))
		}
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("", "a", c.IPsec.SAs[0], "k", k)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("", "a", c.IPsec.SAs[0], "k", k)
	check("slog", log.String())
	text, err := json.Marshal(c)
	check("json", string(text))
	if err != nil || k.String() != "(key)" || (Key{}).String() != "(no key)" {
		t.Errorf("json: %v; a key prints as %v, no key as %v", err, k, Key{})
	}
}

// Errors reveal no key if any character of a file is missing or added, or a key is in any field.
func TestKeysAreNotInErrors(t *testing.T) {
	texts := []string{tunnel + "x"}
	for i := range tunnel {
		texts = append(texts, tunnel[:i], tunnel[:i]+tunnel[i+1:])
		for _, s := range []string{"\n", " ", ":", "\"", "-", "[", "x: "} {
			texts = append(texts, tunnel[:i]+s+tunnel[i:])
		}
	}
	for _, line := range strings.Split(tunnel, "\n") {
		if field, value, ok := strings.Cut(line, ": "); ok {
			texts = append(texts, strings.Replace(tunnel, line, field+": "+keyA, 1), strings.Replace(tunnel, line, keyA+": "+value, 1))
		}
	}
	mistakes := 0
	for _, text := range texts {
		_, err := Parse("f", []byte(text))
		if err == nil {
			continue
		}
		mistakes++
		got := err.Error()
		for _, key := range []string{keyA, keyB, keyC} {
			for i := 0; i+12 <= len(key); i++ {
				if strings.Contains(got, key[i:i+12]) {
					t.Fatalf("part %s of a key is in the errors of\n%s\nerrors:\n%s", key[i:i+12], text, got)
				}
			}
		}
	}
	if mistakes < len(texts)/2 {
		t.Errorf("only %d of %d texts are invalid", mistakes, len(texts))
	}
}

func TestZeroOverwritesAllCopies(t *testing.T) {
	k := NewKey([]byte{1, 2, 3})
	copied, bytes := k, k.Bytes()
	k.Zero()
	if string(bytes) != "\x00\x00\x00" || string(copied.Bytes()) != "\x00\x00\x00" {
		t.Errorf("after Zero: %v, copy %v", bytes, copied.Bytes())
	}
	if !copied.Equal(NewKey([]byte{1, 2, 3})) || copied.Equal(NewKey([]byte{0, 0, 0})) || k.Equal(Key{}) {
		t.Error("Equal fails after Zero")
	}
	Key{}.Zero() // no panic
}

// fileTest writes a configuration and its key file k to a directory, and returns its path.
func fileTest(t *testing.T, key string, mode os.FileMode) (config string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "k"), []byte(key), mode))
	if err := os.Chmod(filepath.Join(dir, "k"), mode); err != nil { // WriteFile applies the umask
		t.Fatal(err)
	}
	config = filepath.Join(dir, "w.yaml")
	require.NoError(t, os.WriteFile(config, []byte(strings.Replace(tunnel, "key: "+keyA, "key_file: k", 1)), 0o600))
	return config
}

func TestOnlyLoadReadsKeyFiles(t *testing.T) {
	for name, text := range map[string]string{
		"one line": keyA + "\n", "no newline": keyA, "prefix and CRLF": "0x" + strings.ToUpper(keyA) + "\r\n",
	} {
		path := fileTest(t, text, 0o400)
		c, err := Load(path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := hex.EncodeToString(c.IPsec.SAs[0].Key.Bytes()); got != keyA {
			t.Errorf("%s: read %s", name, got)
		}
		if err := c.Check(); err != nil {
			t.Errorf("%s: checked again: %v", name, err)
		}
	}
	text := strings.Replace(tunnel, "key: "+keyA, "key_file: /no/such/key", 1)
	c, err := Parse("f", []byte(text))
	if err != nil || c.IPsec.SAs[0].Key.Len() != 0 || c.IPsec.SAs[0].KeyFile != "/no/such/key" {
		t.Errorf("Parse reads a key file: %v", err)
	}
}

func TestUnusableKeyFilesAreRefused(t *testing.T) {
	const hexHint = "; write the key to it, as hex digits on one line"
	tests := []struct {
		name, text string
		mode       os.FileMode
		want       string // DIR is the directory
	}{
		{"readable by the group", keyA, 0o640, "DIR/k is accessible to other users (mode 0640); chmod 600 DIR/k"},
		{"writable by all", keyA, 0o602, "DIR/k is accessible to other users (mode 0602); chmod 600 DIR/k"},
		{"empty", "\n", 0o600, "DIR/k: no hex digits" + hexHint},
		{"two lines", keyA[:20] + "\n" + keyA[20:], 0o600, "DIR/k: character 21 is not a hex digit" + hexHint},
		{"bytes", "\x00\x11\x22\xff", 0o600, "DIR/k: character 1 is not a hex digit" + hexHint},
		{"no salt", keyA[:32], 0o600, "32 hex digits are the wrong length for aes128gcm16; write 40 hex digits (16 bytes of key, then 4 of salt)"},
		{"too long", strings.Repeat("0", 2000), 0o600, "DIR/k: 2000 bytes are too many for a key" + hexHint},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { checkLoad(t, fileTest(t, tt.text, tt.mode), tt.want) })
	}
	t.Run("missing", func(t *testing.T) {
		path := fileTest(t, keyA, 0o600)
		require.NoError(t, os.Remove(filepath.Join(filepath.Dir(path), "k")))
		checkLoad(t, path, "stat DIR/k: no such file or directory"+hexHint)
	})
	t.Run("a directory", func(t *testing.T) {
		path := fileTest(t, keyA, 0o600)
		text := strings.Replace(tunnel, "key: "+keyA, "key_file: "+filepath.Dir(path), 1)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		checkLoad(t, path, "DIR is a directory, not a regular file; write the path of a file with the key, as hex digits on one line")
	})
}

// checkLoad fails unless Load returns one error, at the position of key_file.
func checkLoad(t *testing.T, path, want string) {
	t.Helper()
	_, err := Load(path)
	want = path + ":10:17: ipsec.sas[0].key_file: " + strings.ReplaceAll(want, "DIR", filepath.Dir(path))
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestSharedKeyFilesAreRefused(t *testing.T) {
	path := fileTest(t, keyA, 0o600)
	text := strings.Replace(tunnel, "key: "+keyA, "key_file: k", 1)
	text = strings.Replace(text, "suite: aes128-sha256\n      key: "+keyB+"\n      auth_key: "+keyC, "suite: aes128gcm16\n      key_file: k", 1)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), `:17:17: ipsec.sas[1].key_file: same key as "branch-out" in line 4`) {
		t.Errorf("one key file for two SAs: %v", err)
	}
}

// FuzzKey checks that errors of parseKey reveal no digits.
func FuzzKey(f *testing.F) {
	for _, s := range []string{"", "0x", "00112233445566778899aabbccddeeff01020304", "0x0", "0xzz112233445566778899aabbccddeeff", "00112233445566778899aabbccddeeff0102030\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		k, err := parseKey(text)
		switch {
		case err != nil && len(text) > 8 && strings.Contains(err.Error(), string(text)):
			t.Errorf("the error reveals the key: %v", err)
		case err == nil && !strings.EqualFold(hex.EncodeToString(k.Bytes()), strings.TrimPrefix(string(text), "0x")):
			t.Errorf("%q is the key %x", text, k.Bytes())
		}
	})
}
