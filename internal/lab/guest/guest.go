// Package guest runs a second Linux kernel for features that the host's kernel may lack, such as ESP.
//
// A Guest sees the host's files at the same paths, below a writable overlay in memory, and runs
// commands from the host. There is no image: its first process, the agent, is built from this tree
// and mounts the root (see agent). There are two kinds:
//
//   - StartUML: user-mode Linux, a kernel in a process. It boots in two seconds and runs a command
//     in 15 ms, without AF_XDP.
//   - StartVM: Debian's stock kernel in QEMU, with AF_XDP and all modules. It boots in four seconds
//     and runs at a tenth of the speed, because KVM may be missing in virtual machines. It can have
//     emulated NICs (VM).
//
// Both have one processor by default.
//
// A guest ends with the process that started it.
package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/guest/wire"
)

// bootLimit is the time limit of a boot. It only bounds the duration of failing tests.
const bootLimit = time.Minute

// Guest is a running kernel. Its methods may be called concurrently.
type Guest struct {
	name      string
	dir       string // of the agent
	ns        *lab.Namespace
	console   console
	control   net.Conn
	processes []*lab.Process // the last is the kernel

	mu      sync.Mutex
	last    uint64
	pending map[uint64]chan wire.Result
	down    error // why the guest has ended
}

// firstDirs are the agent's mount points.
var firstDirs = []string{wire.HostDir, wire.LayerDir, wire.RootDir}

// prepare creates the guest's directory with an agent.
func prepare(ns *lab.Namespace, name string) (*Guest, error) {
	dir, err := os.MkdirTemp("", "guest-")
	if err != nil {
		return nil, err
	}
	g := &Guest{name: name, dir: dir, ns: ns, pending: map[uint64]chan wire.Result{}}
	if err := Build(filepath.Join(dir, "agent"), "github.com/warproute/warproute/internal/lab/guest/agent"); err != nil {
		g.Close()
		return nil, err
	}
	for _, d := range firstDirs {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			g.Close()
			return nil, err
		}
	}
	return g, nil
}

// buildEnv is the environment of builds for a guest: without C, because the agent's root is
// empty at first, without the race detector, for which a guest is too small, and without the
// compiler's profile, for which everything would be compiled again.
var buildEnv = []string{"CGO_ENABLED=0", "GOFLAGS=-pgo=off -buildvcs=false"}

// builds has the programs that Build has built, by package.
var builds = struct {
	sync.Mutex
	files map[string][]byte
}{files: map[string][]byte{}}

// Build builds a program that runs in a guest. A process links each program once.
func Build(file, pkg string) error {
	builds.Lock()
	defer builds.Unlock()
	if binary, ok := builds.files[pkg]; ok {
		return os.WriteFile(file, binary, 0o755)
	}
	build := exec.Command("go", "build", "-o", file, pkg)
	build.Env = append(os.Environ(), buildEnv...)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s for a guest: %w: %s", pkg, err, out)
	}
	binary, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	builds.files[pkg] = binary
	return nil
}

// configure writes the agent's Config.
func (g *Guest) configure(c wire.Config) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(g.dir, wire.ConfigFile), text, 0o644)
}

// start starts a process of the guest as init of a PID namespace, so that its children end with it.
// It inherits files as descriptors from 3.
func (g *Guest) start(files []*os.File, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &g.console, &g.console
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	cmd.ExtraFiles = files
	p, err := g.ns.Start(cmd)
	if err != nil {
		return fmt.Errorf("%w (is its Debian package installed?)", err)
	}
	g.processes = append(g.processes, p)
	return nil
}

// boot starts the kernel, whose descriptor 3 is the control connection and files those after it, and
// waits for its agent.
func (g *Guest) boot(files []*os.File, name string, args ...string) error {
	host, guest, err := socketPair()
	if err != nil {
		return err
	}
	g.control = host
	err = g.start(append([]*os.File{guest}, files...), name, args...)
	guest.Close()
	if err != nil {
		return err
	}
	up := make(chan wire.Result, 1)
	g.pending[0] = up
	go g.receive()
	go func() {
		<-g.processes[len(g.processes)-1].Done()
		g.fail(fmt.Errorf("the guest ended; its console:\n%s", g.console.String()))
	}()
	select {
	case r := <-up:
		if r.Failure != "" {
			return fmt.Errorf("the guest did not boot: %s; its console:\n%s", r.Failure, g.console.String())
		}
	case <-time.After(bootLimit):
		return fmt.Errorf("the guest was not up after %v; its console:\n%s", bootLimit, g.console.String())
	}
	_, err = g.Run("ip", "link", "set", "lo", "up")
	return err
}

// socketPair returns both ends of a stream, one as a file for a child process.
func socketPair() (net.Conn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}

// Close ends the guest without saving anything. It may be called on nil and repeatedly.
func (g *Guest) Close() error {
	if g == nil {
		return nil
	}
	g.fail(errors.New("the guest was closed"))
	for _, p := range g.processes {
		p.Signal(os.Kill)
	}
	for _, p := range g.processes {
		<-p.Done()
	}
	if g.control != nil {
		g.control.Close()
	}
	return os.RemoveAll(g.dir)
}
