// Package guest runs a second Linux kernel beside the host's, for what the host's
// does not have: ESP, to begin with.
//
// A Guest sees the host's files at the same paths, with a layer of memory above
// them that takes what it writes, and runs commands that the host sends. Nothing
// is installed in it and there is no image: its first process, the agent, is built
// from this tree and makes the root (see agent). There are two kinds:
//
//   - StartUML: user-mode Linux, a kernel that is a process. It is up in two seconds
//     and takes 15 ms for a command, but has no AF_XDP.
//   - StartVM: Debian's stock kernel in QEMU, which has everything, strongSwan's needs
//     and AF_XDP with them. It is up in four seconds and runs at a tenth of the speed:
//     KVM is not used, as it cannot be relied on inside virtual machines.
//
// Either has one processor.
//
// A guest ends with the process that started it, by whichever way that ends.
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

// bootLimit is the time that a guest takes to come up, at most. It only bounds how
// long a test that fails takes.
const bootLimit = time.Minute

// Guest is a running kernel. Its methods may be called at the same time.
type Guest struct {
	name      string
	dir       string // the agent and what it needs
	ns        *lab.Namespace
	console   console
	control   net.Conn
	processes []*lab.Process // the last is the kernel

	mu      sync.Mutex
	last    uint64
	pending map[uint64]chan wire.Result
	down    error // why there are no more results
}

// firstDirs are what the agent mounts on.
var firstDirs = []string{wire.HostDir, wire.LayerDir, wire.RootDir}

// prepare makes the guest's directory, with an agent in it.
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

// Build builds a program that runs in a guest: without C, as the agent has an empty
// root at first, without the race detector, for which a guest is too small, and without the
// profile of what is hot, with which everything is compiled once more.
func Build(file, pkg string) error {
	build := exec.Command("go", "build", "-o", file, pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-pgo=off")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s for a guest: %w: %s", pkg, err, out)
	}
	return nil
}

// configure leaves the agent its Config.
func (g *Guest) configure(c wire.Config) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(g.dir, wire.ConfigFile), text, 0o644)
}

// start starts a process of the guest. It is the first of a process namespace, so
// that whatever it starts ends with it. Its descriptor 3, if it has one, is control.
func (g *Guest) start(control *os.File, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &g.console, &g.console
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if control != nil {
		cmd.ExtraFiles = []*os.File{control}
	}
	p, err := g.ns.Start(cmd)
	if err != nil {
		return fmt.Errorf("%w (is its Debian package installed?)", err)
	}
	g.processes = append(g.processes, p)
	return nil
}

// boot starts the kernel and waits for its agent.
func (g *Guest) boot(name string, args ...string) error {
	host, guest, err := socketPair()
	if err != nil {
		return err
	}
	g.control = host
	err = g.start(guest, name, args...)
	guest.Close()
	if err != nil {
		return err
	}
	up := make(chan wire.Result, 1)
	g.pending[0] = up
	go g.receive()
	go func() {
		<-g.processes[len(g.processes)-1].Done()
		g.fail(errors.New("the guest ended"))
	}()
	select {
	case r := <-up:
		if r.Failure != "" {
			return fmt.Errorf("the guest did not come up: %s; its console:\n%s", r.Failure, g.console.String())
		}
	case <-time.After(bootLimit):
		return fmt.Errorf("the guest was not up after %v; its console:\n%s", bootLimit, g.console.String())
	}
	_, err = g.Run("ip", "link", "set", "lo", "up")
	return err
}

// socketPair returns both ends of a stream, one for this process and one to pass on.
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

// Close ends the guest, which saves nothing. It may be called on nil, and again.
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
