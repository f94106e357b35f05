package lookup

import (
	"bufio"
	"bytes"
	_ "embed" // for the peer's source
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

//go:embed dpdk/peer.c
var peerSource []byte

// compilePeer builds peer.c in dir for this machine and its DPDK.
func compilePeer(dir string) (binary string, err error) {
	for _, need := range []struct{ command, pkg string }{{"cc", "gcc"}, {"pkg-config", "pkg-config"}} {
		if _, err := exec.LookPath(need.command); err != nil {
			return "", fmt.Errorf("%s is not installed (apt-get install %s)", need.command, need.pkg)
		}
	}
	flags, err := exec.Command("pkg-config", "--cflags", "--libs", "libdpdk").Output()
	if err != nil {
		return "", errors.New("libdpdk-dev is not installed (apt-get install libdpdk-dev)")
	}
	source, binary := filepath.Join(dir, "peer.c"), filepath.Join(dir, "peer")
	if err := os.WriteFile(source, peerSource, 0o600); err != nil {
		return "", err
	}
	args := append([]string{"-O3", "-march=native", "-o", binary, source}, strings.Fields(string(flags))...)
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile the peer: %w\n%s", err, out)
	}
	return binary, nil
}

// peer is a process with a DPDK table.
type peer struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	errors bytes.Buffer
}

// startPeer starts the process, whose first reply reports the load of the routes. dir is
// DPDK's runtime directory.
func startPeer(path, dir string, args []string) (*peer, error) {
	p := &peer{cmd: exec.Command(path, args...)}
	p.cmd.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+dir)
	p.cmd.Stderr = &p.errors
	// The peer must not receive the terminal's interrupt; it exits at the end of its input.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err1 := p.cmd.StdinPipe()
	out, err2 := p.cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	p.in, p.out = in, bufio.NewReader(out)
	return p, p.cmd.Start()
}

// stop closes the peer's input and waits for its exit.
func (p *peer) stop() {
	_ = p.in.Close()
	_ = p.cmd.Wait()
}

// command sends a command and returns the n figures of its reply.
func (p *peer) command(n int, format string, args ...any) ([]int64, error) {
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		return nil, fmt.Errorf("send a command to the peer: %w", err)
	}
	return p.reply(n)
}

// reply reads a reply: "ok" and n figures, or "error" and a message.
func (p *peer) reply(n int) ([]int64, error) {
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.stop() // completes p.errors
		stderr := p.errors.Bytes()
		return nil, fmt.Errorf("the peer exited: %v\n%s", p.cmd.ProcessState, stderr[max(0, len(stderr)-2000):])
	}
	words := strings.Fields(line)
	if len(words) != n+1 || words[0] != "ok" {
		return nil, errors.New(strings.TrimPrefix(strings.TrimSpace(line), "error "))
	}
	figures := make([]int64, n)
	for i := range figures {
		if figures[i], err = strconv.ParseInt(words[i+1], 10, 64); err != nil {
			return nil, fmt.Errorf("parse the peer's reply %q: %w", line, err)
		}
	}
	return figures, nil
}
