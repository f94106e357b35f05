package textfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

// within fails if f blocks.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: blocked", what)
	}
}

func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	return path
}

func TestReadRefusesOtherFileTypes(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	defer l.Close()
	for path, want := range map[string]string{fifo(t): "a pipe", dir: "a directory", socket: "a socket", "/dev/zero": "a device", "/dev/tty": "a device"} {
		within(t, path, func() {
			if _, _, err := Read(path, 100); !errors.Is(err, ErrType) || !strings.Contains(err.Error(), path+" is "+want) {
				t.Errorf("%s: %v", path, err)
			}
		})
	}
}

func TestOpenAcceptsPipes(t *testing.T) {
	within(t, "no writer", func() {
		f, _, err := Open(fifo(t), fs.ModeNamedPipe)
		require.NoError(t, err)
		defer f.Close()
		if data, err := io.ReadAll(f); len(data) != 0 || err != nil {
			t.Errorf("%q, %v", data, err)
		}
	})
	within(t, "process substitution of a shell", func() {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		go func() {
			defer w.Close()
			for range 3 {
				time.Sleep(10 * time.Millisecond)
				io.WriteString(w, "text ")
			}
		}()
		f, _, err := Open(fmt.Sprintf("/dev/fd/%d", r.Fd()), fs.ModeNamedPipe)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		if data, err := io.ReadAll(f); string(data) != "text text text " || err != nil {
			t.Errorf("%q, %v", data, err)
		}
	})
}

func TestReadLimitsTheSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, []byte("12345"), 0o600))
	if data, _, err := Read(path, 5); string(data) != "12345" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	var long *TooLong
	if _, _, err := Read(path, 4); !errors.As(err, &long) || long.Bytes != 5 {
		t.Errorf("a byte too long: %v", err)
	}
	if _, _, err := Read("/proc/self/status", 100); !errors.As(err, &long) {
		t.Errorf("a file without a size: %v", err)
	}
	if _, _, err := Read(path+"x", 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
