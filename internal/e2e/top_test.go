package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

func TestTopShowsRates(t *testing.T) {
	top, r := startTwoPorts(t)
	mustPing(t, top.Client, lab.Server4.Addr(), lab.PingOptions{})
	l := startLoad(t, top, 2000, lab.Server4.Addr().String(), "172.16.0.1")
	out, err := exec.Command(program, "top", "--socket", r.Socket, "--once", "--json", "--interval", "500ms").Output()
	if err != nil {
		t.Fatalf("top: %v", err)
	}
	l.end()
	var x status.Top
	require.NoError(t, json.Unmarshal(out, &x))
	near := func(what string, got, want float64) {
		t.Helper()
		if got < want/2 || got > want*2 {
			t.Errorf("%s: %.0f, want about %.0f", what, got, want)
		}
	}
	near("received at lan0", x.Ports[0].RxPackets, 2000)
	near("bits of that", x.Ports[0].RxBits, 2000*62*8)
	near("sent at wan0", x.Ports[1].TxPackets, 1000)
	near("dropped", x.Ports[0].Drops, 1000)
	if x.Engine != "cpu" || x.Chunks == 0 || x.Latency[len(x.Latency)-1].P50 == 0 || len(x.Drops) == 0 || x.Drops[0].Reason != "no_route" {
		t.Errorf("%+v", x)
	}
}

// terminal opens both ends of a pseudo terminal.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { master.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { slave.Close() })
	require.NoError(t, unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 10, Col: 60}))
	return master, slave
}

// q and signals end `warproute top` and restore the terminal.
func TestTopRestoresTheTerminal(t *testing.T) {
	_, r := startTwoPorts(t)
	for name, end := range map[string]func(master *os.File, p *os.Process) error{
		"q":       func(master *os.File, _ *os.Process) error { _, err := master.WriteString("q"); return err },
		"Ctrl-C":  func(master *os.File, _ *os.Process) error { _, err := master.WriteString("\x03"); return err },
		"SIGTERM": func(_ *os.File, p *os.Process) error { return p.Signal(syscall.SIGTERM) },
	} {
		master, slave := terminal(t)
		before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		require.NoError(t, err)
		cmd := exec.Command(program, "top", "--socket", r.Socket, "--interval", "100ms")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // which ends it with the test
		require.NoError(t, cmd.Start())
		screen := make(chan string)
		go func() {
			var all strings.Builder
			buf := make([]byte, 4096)
			for ended := false; ; {
				n, err := master.Read(buf)
				all.Write(buf[:n])
				if !ended && strings.Count(all.String(), "LATENCY") >= 2 {
					ended = true
					if err := end(master, cmd.Process); err != nil {
						t.Error(err)
					}
				}
				if err != nil || strings.Contains(all.String(), "\x1b[?1049l") {
					screen <- all.String()
					return
				}
			}
		}()
		watchdog := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill(); master.Close() })
		err = cmd.Wait()
		text := <-screen
		watchdog.Stop()
		if err != nil {
			t.Errorf("%s: %v: %q", name, err, text)
		}
		if !strings.HasPrefix(text, "\x1b[?1049h\x1b[?25l") || !strings.HasSuffix(text, "\x1b[?25h\x1b[?1049l") {
			t.Errorf("%s: the terminal got %q", name, text)
		}
		after, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		if err != nil || *after != *before {
			t.Errorf("%s: the terminal has other settings than before: %+v, %+v", name, after, before)
		}
		for _, line := range strings.Split(text, "\r\n") {
			if shown := strings.TrimSuffix(strings.TrimPrefix(line, "\x1b[H"), "\x1b[K"); !strings.Contains(shown, "\x1b") && len([]rune(shown)) > 60 {
				t.Errorf("%s: a line wider than the terminal: %q", name, line)
			}
		}
	}
}
