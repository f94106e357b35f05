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
)

// within fails if f waits for something.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: it waits", what)
	}
}

func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhatIsNoFileIsRefusedAtOnce(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for path, want := range map[string]string{fifo(t): "a pipe", dir: "a directory", socket: "a socket", "/dev/zero": "a device", "/dev/tty": "a device"} {
		within(t, path, func() {
			if _, err := Read(path, 100); !errors.Is(err, ErrType) || !strings.Contains(err.Error(), path+" is "+want) {
				t.Errorf("%s: %v", path, err)
			}
		})
	}
}

func TestAPipeThatIsAccepted(t *testing.T) {
	within(t, "nobody writes", func() {
		f, _, err := Open(fifo(t), fs.ModeNamedPipe)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if data, err := io.ReadAll(f); len(data) != 0 || err != nil {
			t.Errorf("%q, %v", data, err)
		}
	})
	within(t, "of a shell's process substitution", func() {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
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

func TestFilesHaveABound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := Read(path, 5); string(data) != "12345" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	var long *TooLong
	if _, err := Read(path, 4); !errors.As(err, &long) || long.Bytes != 5 {
		t.Errorf("a byte too long: %v", err)
	}
	if _, err := Read("/proc/self/status", 100); !errors.As(err, &long) {
		t.Errorf("a file that does not know its size: %v", err)
	}
	if _, err := Read(path+"x", 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
