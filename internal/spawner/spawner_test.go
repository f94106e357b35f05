package spawner

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

func TestMain(m *testing.M) {
	Run()
	os.Exit(m.Run())
}

// start starts a spawner for a shell script.
func start(t *testing.T, script string) *Spawner {
	t.Helper()
	s, err := Start("/bin/sh", []string{"-c", script})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.conn.Close() })
	return s
}

// pipe returns the read end and the other one.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// text returns what a process has written to the pipe, until it ends.
func text(t *testing.T, s *Spawner) (string, *Process) {
	t.Helper()
	r, w := pipe(t)
	p, err := s.Spawn(w)
	require.NoError(t, err)
	_ = w.Close()
	_ = r.SetReadDeadline(time.Now().Add(10 * time.Second))
	var out strings.Builder
	_, err = r.WriteTo(&out)
	require.NoError(t, err)
	return out.String(), p
}

// The program has the arguments and the environment of the router, and the file of the request. It is started again
// and again, and the spawner reports each end.
func TestSpawnerStartsTheProgram(t *testing.T) {
	t.Setenv("SPAWNER_TEST", "value")
	t.Setenv("WATCHDOG_PID", "1")
	s := start(t, `echo "$SPAWNER_TEST $WATCHDOG_PID." >&3; exit 7`)
	for range 3 {
		got, p := text(t, s)
		if got != "value .\n" {
			t.Errorf("the program wrote %q", got)
		}
		if state, code := p.State(); code != 7 || state != "exit status 7" {
			t.Errorf("end: %s, code %d", state, code)
		}
	}
}

// A program that cannot be started is an error that names it, and the next request works.
func TestMissingProgramIsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	s, err := Start(path, nil)
	require.NoError(t, err)
	defer s.conn.Close()
	r, _ := pipe(t)
	if _, err := s.Spawn(r); err == nil || !strings.Contains(err.Error(), path+": no such file") {
		t.Errorf("%v", err)
	}
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\nexit 0\n"), 0o755))
	p, err := s.Spawn(r)
	require.NoError(t, err)
	if _, code := p.State(); code != 0 {
		t.Errorf("code %d", code)
	}
}

// One process runs at a time, and the router ends it by the spawner.
func TestSpawnerKillsItsProcess(t *testing.T) {
	s := start(t, "exec sleep 60")
	r, _ := pipe(t)
	p, err := s.Spawn(r)
	require.NoError(t, err)
	if _, err := s.Spawn(r); err == nil || !strings.Contains(err.Error(), "still runs") {
		t.Errorf("a second process: %v", err)
	}
	p.Kill()
	if state, code := p.State(); code != -1 || state != "signal: killed" {
		t.Errorf("end: %s, code %d", state, code)
	}
	p.Kill() // of a process that has ended does nothing
	p, err = s.Spawn(r)
	require.NoError(t, err)
	p.Kill()
	<-p.Ended()
}

// A compromised router can send anything: without exactly one file, and with other requests, nothing is started, and arguments
// have no effect.
func TestSpawnerTakesNoCommands(t *testing.T) {
	dir := t.TempDir()
	s := start(t, "echo started >>"+filepath.Join(dir, "log")+"; exec sleep 60")
	r, w := pipe(t)
	send := func(data string, files ...int) {
		t.Helper()
		var oob []byte
		if len(files) > 0 {
			oob = unix.UnixRights(files...)
		}
		_, _, err := s.conn.WriteMsgUnix([]byte(data), oob, nil)
		require.NoError(t, err)
	}
	refused := func() {
		t.Helper()
		select {
		case got := <-s.started:
			if got.Error == "" || got.PID != 0 {
				t.Errorf("started: %+v", got)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("no answer")
		}
	}
	fd := int(r.Fd())
	send("k")
	send("x", fd)
	send("/bin/touch "+dir+"/x", fd)
	send("s")
	refused()
	send("s", fd, int(w.Fd()))
	refused()
	send("s /bin/touch "+dir+"/x", fd)
	refused()
	p, err := s.Spawn(r)
	require.NoError(t, err)
	send("s", fd)
	refused()
	p.Kill()
	<-p.Ended()
	if _, err := os.Stat(dir + "/x"); err == nil {
		t.Error("another program was started")
	}
	if log, _ := os.ReadFile(dir + "/log"); strings.Count(string(log), "started") > 1 { // none if it was killed early
		t.Errorf("the program was started more than once: %s", log)
	}
}

func gone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); unix.Kill(pid, 0) == nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d runs", pid)
		}
	}
}

// A spawner ignores signals to the group, and ends when the router's end of the connection is closed. Its process continues.
func TestSpawnerEndsWithTheRouter(t *testing.T) {
	s := start(t, `echo started >&3; read x <&3`)
	pid := s.pid
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	other := os.NewFile(uintptr(fds[1]), "other")
	mine, err := net.FileConn(os.NewFile(uintptr(fds[0]), "mine"))
	require.NoError(t, err)
	defer mine.Close()
	p, err := s.Spawn(other)
	require.NoError(t, err)
	_ = other.Close()
	_, err = mine.Read(make([]byte, 8))
	require.NoError(t, err)
	for _, signal := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGABRT} {
		require.NoError(t, unix.Kill(pid, signal))
	}
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, unix.Kill(pid, 0))
	require.NoError(t, s.conn.Close())
	gone(t, pid)
	require.NoError(t, unix.Kill(p.PID, 0))
	_, err = mine.Write([]byte("end\n"))
	require.NoError(t, err)
	gone(t, p.PID)
}

// The router notices the end of its spawner: requests fail with a hint, and no wait hangs.
func TestEndOfTheSpawnerIsReported(t *testing.T) {
	s := start(t, "read x <&3")
	_, w := pipe(t)
	r2, _ := pipe(t)
	p, err := s.Spawn(r2)
	require.NoError(t, err)
	require.NoError(t, unix.Kill(s.pid, unix.SIGKILL))
	if state, code := p.State(); code != -1 || !strings.Contains(state, "the spawner has ended") {
		t.Errorf("end: %s, code %d", state, code)
	}
	if _, err := s.Spawn(w); err == nil || !strings.Contains(err.Error(), "restart the router to upgrade") {
		t.Errorf("%v", err)
	}
	_ = unix.Kill(p.PID, unix.SIGKILL)
}

// Other processes of the user cannot trace a spawner, and its memory is not locked, though the router's is.
func TestSpawnerIsSmall(t *testing.T) {
	s := start(t, "exit 0")
	var status []byte
	for by := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var err error
		status, err = os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
		require.NoError(t, err)
		if strings.Contains(string(status), "Name:\twarproute-spawn\n") || time.Now().After(by) {
			break // it has started
		}
	}
	for _, want := range []string{"Name:\twarproute-spawn\n", "VmLck:\t       0 kB\n"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("no %q in\n%s", want, status)
		}
	}
	_, after, _ := strings.Cut(string(status), "RssAnon:")
	var kib int
	fmt.Sscan(after, &kib)
	t.Logf("%d KiB of memory of its own", kib)
	if kib > 16<<10 {
		t.Errorf("%d KiB of memory of its own", kib)
	}
}
