package lab

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Process is a child process that runs inside a namespace.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // how it ended; valid after done
}

// Start starts cmd in the namespace. The process sees the namespace's links under /sys/class/net, and
// is killed when this process ends.
func (ns *Namespace) Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The thread never leaves the namespaces, so it stays locked and ends with this
		// goroutine. It must outlive the child, which the kernel kills with its parent thread.
		runtime.LockOSThread()
		err := ns.start(cmd)
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s in namespace %q: %w", cmd.Path, ns.name, err)
	}
	return p, nil
}

func (ns *Namespace) start(cmd *exec.Cmd) error {
	if err := netns.Set(ns.fd); err != nil {
		return fmt.Errorf("enter the namespace: %w", err)
	}
	// A sysfs shows the links of the namespace in which it was mounted.
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", withHint(err))
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount /sys: %w", err)
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return cmd.Start()
}

// Run runs a command in the namespace and returns its standard output and error.
func (ns *Namespace) Run(name string, args ...string) (output string, err error) {
	cmd := exec.Command(name, args...)
	var out bytes.Buffer // exec.Cmd copies both streams to it in one goroutine
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := ns.Start(cmd)
	if err != nil {
		return "", err
	}
	if err := p.Wait(); err != nil {
		return out.String(), fmt.Errorf("%s in namespace %q: %w: %s", cmd, ns.name, err, out.String())
	}
	return out.String(), nil
}

// Wait waits for the process to end and returns the error of exec.Cmd's Wait.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Pid is the number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends the process a signal.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Stop sends SIGTERM, and SIGKILL if the process runs longer than the patience. It returns the error of
// exec.Cmd's Wait.
func (p *Process) Stop(patience time.Duration) error {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return p.err
	case <-time.After(patience):
	}
	p.cmd.Process.Kill()
	<-p.done
	return fmt.Errorf("%s did not end within %v of SIGTERM and was killed", p.cmd.Path, patience)
}
