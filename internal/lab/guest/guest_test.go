package guest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/guest/wire"
	"github.com/warproute/warproute/internal/require"
)

// A guest that notices a command only with the next one: the host sends an empty one.
func TestRunAsksForALateResult(t *testing.T) {
	host, file, err := socketPair()
	require.NoError(t, err)
	defer host.Close()
	defer file.Close()
	go func() {
		decoder := json.NewDecoder(file)
		var first, second wire.Command
		if decoder.Decode(&first) == nil && decoder.Decode(&second) == nil && len(second.Args) == 0 {
			encoder := json.NewEncoder(file)
			_ = encoder.Encode(wire.Result{})
			_ = encoder.Encode(wire.Result{ID: first.ID, Output: []byte("done")})
		}
	}()
	g := &Guest{control: host, pending: map[uint64]chan wire.Result{}}
	go g.receive()
	out, err := g.Run("true")
	require.NoError(t, err)
	if out != "done" {
		t.Errorf("output %q", out)
	}
}

func startUML(t *testing.T) *Guest {
	t.Helper()
	ns, err := lab.New("guest")
	require.NoError(t, err)
	t.Cleanup(func() { ns.Close() })
	g, err := StartUML(ns)
	require.NoError(t, err)
	t.Cleanup(func() { g.Close() })
	return g
}

func startVM(t *testing.T) *Guest {
	t.Helper()
	g, err := StartVM("../../../out/kernel") // where the Makefile has it
	require.NoError(t, err)
	t.Cleanup(func() { g.Close() })
	return g
}

func TestUML(t *testing.T) { testGuest(t, startUML(t)) }

func TestVM(t *testing.T) {
	g := startVM(t)
	t.Run("has what strongSwan needs", func(t *testing.T) { testStrongSwan(t, g) })
	testGuest(t, g)
}

// testStrongSwan establishes a tunnel between two strongSwans and pings through it.
func testStrongSwan(t *testing.T, g *Guest) {
	script, err := filepath.Abs("testdata/ike.sh")
	require.NoError(t, err)
	out, err := g.Run("sh", script)
	require.NoError(t, err)
	for _, want := range []string{"INSTALLED, TUNNEL, ESP:AES_GCM_16-128/ESN", "2 received"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q: %s", want, out)
		}
	}
}

// testGuest tests all functions of a guest, which starts slowly, and closes it.
func testGuest(t *testing.T, g *Guest) {
	sh := func(script string) (string, error) { return g.Run("sh", "-c", script) }

	t.Run("is another kernel", func(t *testing.T) {
		host, err := os.ReadFile("/proc/version")
		require.NoError(t, err)
		if out, err := g.Run("cat", "/proc/version"); err != nil || out == string(host) || !strings.HasPrefix(out, "Linux version") {
			t.Errorf("got %q, %v; the host is %q", out, err, host)
		}
	})
	t.Run("sees the host's files and writes to its own", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, []byte("host"), 0o644))
		if out, err := sh(fmt.Sprintf("cat %[1]s; echo -n guest >%[1]s; cat %[1]s", file)); err != nil || out != "hostguest" {
			t.Errorf("in the guest: %q, %v", out, err)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != "host" {
			t.Errorf("on the host: %q, %v", text, err)
		}
	})
	t.Run("loads modules", func(t *testing.T) {
		if out, err := sh("modprobe esp4 && cat /proc/modules"); err != nil || !strings.Contains(out, "esp4 ") {
			t.Errorf("got %q, %v", out, err)
		}
	})
	t.Run("reports failure with output", func(t *testing.T) {
		out, err := sh("echo out; echo reason >&2; exit 3")
		if out != "out\nreason\n" || err == nil || !strings.Contains(err.Error(), "exit status 3: out\nreason") {
			t.Errorf("got %q, %v", out, err)
		}
		if _, err := g.Run("no-such-command"); err == nil || !strings.Contains(err.Error(), "not found") {
			t.Errorf("a command that does not exist gives %v", err)
		}
	})
	t.Run("is not held up by daemons", func(t *testing.T) {
		start := time.Now()
		out, err := sh("sleep 60 & echo $!")
		if err != nil || time.Since(start) > 10*time.Second {
			t.Fatalf("%q, %v, after %v", out, err, time.Since(start))
		}
		if _, err := sh("kill " + out); err != nil {
			t.Errorf("the daemon is gone: %v", err)
		}
	})
	t.Run("passes much in both directions, side by side", func(t *testing.T) {
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				input := strings.Repeat(fmt.Sprint(i), 100_000)
				if out, err := g.Feed(input, "cat"); err != nil || out != input {
					t.Errorf("%d: of %d bytes %d came back, %v", i, len(input), len(out), err)
				}
			})
		}
		all.Wait()
	})
	t.Run("ends every command when it is closed", func(t *testing.T) {
		ended := make(chan error)
		go func() { _, err := g.Run("sleep", "60"); ended <- err }()
		for { // until it sleeps
			out, err := sh("cat /proc/[0-9]*/comm 2>/dev/null; true")
			require.NoError(t, err)
			if strings.Contains(out, "sleep\n") {
				break
			}
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("the command that ran gives %v", err)
		}
		if _, err := g.Run("true"); err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("a command after Close gives %v", err)
		}
		if err := g.Close(); err != nil {
			t.Errorf("the second Close gives %v", err)
		}
		if left := processes(t, g.dir); len(left) > 0 {
			t.Errorf("processes are left: %q", left)
		}
	})
}

func TestCommandsFailWhenTheGuestDies(t *testing.T) {
	g := startUML(t)
	time.AfterFunc(100*time.Millisecond, func() { g.processes[len(g.processes)-1].Signal(os.Kill) })
	if _, err := g.Run("sleep", "60"); err == nil || !strings.Contains(err.Error(), "the guest ended") {
		t.Errorf("got %v, want that the guest ended", err)
	}
}

// asChild makes the test binary only start a guest, for TestGuestEndsWithItsProcess.
const asChild = "GUEST_TEST_CHILD"

func TestGuestEndsWithItsProcess(t *testing.T) {
	if os.Getenv(asChild) != "" {
		fmt.Println("directory", startUML(t).dir)
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestGuestEndsWithItsProcess$", "-test.timeout", "60s")
	cmd.Env = append(os.Environ(), asChild+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var dir string
	for lines := bufio.NewScanner(out); dir == "" && lines.Scan(); {
		dir, _ = strings.CutPrefix(lines.Text(), "directory ")
	}
	if len(processes(t, dir)) == 0 {
		t.Fatalf("no process of a guest in %q", dir)
	}
	defer os.RemoveAll(dir)
	cmd.Process.Kill()
	for end := time.Now().Add(5 * time.Second); len(processes(t, dir)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("killed with its process, and yet: %q", processes(t, dir))
		}
	}
}

// processes returns the command lines with a guest's directory.
func processes(t *testing.T, dir string) (lines []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, f := range files {
		line, _ := os.ReadFile(f) // which may have ended meanwhile
		if dir != "" && strings.Contains(string(line), dir) {
			lines = append(lines, string(line))
		}
	}
	return lines
}
