package routes

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

func TestRealReturnsTheTableOrASyntheticOne(t *testing.T) {
	for _, f := range families {
		s, err := Real(f, 1)
		require.NoError(t, err)
		if want := total(lengths(f)); s.Len() != want {
			t.Errorf("%v: %d routes, want %d", f, s.Len(), want)
		}
		if (s.Name == "real") == strings.Contains(s.Source, "synthetic") {
			t.Errorf("%v: table %q is said to be from %q", f, s.Name, s.Source)
		}
		t.Logf("%v: %s: %s", f, s.Name, s.Source)
	}
}

func TestRealRejectsInvalidFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "routes.gz")
	t.Setenv(FileVariable, file)
	if _, err := Real(IPv4, 1); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("absent: %v", err)
	}
	require.NoError(t, os.WriteFile(file, []byte("192.0.2.0/24\n"), 0o600))
	if _, err := Real(IPv4, 1); err == nil || !strings.Contains(err.Error(), "unpack") {
		t.Errorf("not packed: %v", err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte("192.0.2.0/24\n192.0"))
	z.Flush()
	require.NoError(t, os.WriteFile(file, packed.Bytes(), 0o600))
	if _, err := Real(IPv4, 1); err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
		t.Errorf("breaks off: %v", err)
	}
}
