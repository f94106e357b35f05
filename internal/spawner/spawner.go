// Package spawner starts the installed binary for a router that cannot start programs: its seccomp filter refuses that.
//
// A spawner is a small process. The router starts it from its own binary after it has reduced its privileges, and before
// the filter. The spawner has the privileges of the router and no others, and ends with it. Its command line has the
// program and the arguments: a request has none, only a file descriptor for the new process.
package spawner

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"

	"golang.org/x/sys/unix"
)

// name is argument 0 of a spawner.
const name = "warproute-spawner"

// Requests: one byte. Start comes with a file.
const (
	requestStart = 's'
	requestKill  = 'k'
)

// reply is a message of the spawner: a process has started, has not started, or has ended.
type reply struct {
	PID   int    `json:"pid,omitempty"`
	Error string `json:"error,omitempty"`
	Ended string `json:"ended,omitempty"` // os.ProcessState.String
	Code  int    `json:"code,omitempty"`  // os.ProcessState.ExitCode
}

// Spawner is the router's end of the connection to a spawner.
type Spawner struct {
	Program string // path

	pid     int // of the spawner
	conn    *net.UnixConn
	started chan reply

	mu      sync.Mutex
	current *Process
	err     error // of the connection
}

// Start starts a spawner for a program and its arguments. It executes the running binary, which calls Run.
func Start(program string, args []string) (*Spawner, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("create a pair of sockets for the spawner: %w", err)
	}
	other := os.NewFile(uintptr(fds[1]), "spawner")
	defer other.Close()
	conn, err := connect(fds[0])
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = append([]string{name, program}, args...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdout, os.Stderr, []*os.File{other}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the spawner: %w", err), conn.Close())
	}
	s := &Spawner{Program: program, pid: cmd.Process.Pid, conn: conn, started: make(chan reply, 1)}
	go func() { _ = cmd.Wait() }()
	go s.receive()
	return s, nil
}

func connect(fd int) (*net.UnixConn, error) {
	file := os.NewFile(uintptr(fd), "spawner")
	defer file.Close()
	c, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("file descriptor %d is no connection of a spawner: %w", fd, err)
	}
	if u, ok := c.(*net.UnixConn); ok {
		return u, nil
	}
	return nil, errors.Join(fmt.Errorf("file descriptor %d is no connection of a spawner", fd), c.Close())
}

// receive receives replies until the spawner ends.
func (s *Spawner) receive() {
	buf := make([]byte, maxReply)
	for {
		n, err := s.conn.Read(buf)
		var r reply
		if err == nil {
			err = json.Unmarshal(buf[:n], &r)
		}
		switch {
		case err != nil:
			s.fail(fmt.Errorf("the spawner has ended: %w; restart the router to upgrade", err))
			return
		case r.Ended != "":
			s.end(r)
		default:
			s.started <- r
		}
	}
}

// fail ends all waits.
func (s *Spawner) fail(err error) {
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	close(s.started)
	s.end(reply{Ended: err.Error(), Code: -1})
}

// end records the end of the current process.
func (s *Spawner) end(r reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.current; p != nil {
		p.state, p.code = r.Ended, r.Code
		close(p.ended)
		s.current = nil
	}
}

// Process is a process that a spawner has started.
type Process struct {
	PID int

	spawner *Spawner
	ended   chan struct{}
	state   string // after ended
	code    int
}

// Spawn starts the program, which finds the file at file descriptor 3. One process at a time can run. Spawn is for one goroutine.
func (s *Spawner) Spawn(file *os.File) (*Process, error) {
	p := &Process{spawner: s, ended: make(chan struct{})}
	s.mu.Lock()
	err := s.err
	if err == nil && s.current != nil {
		err = fmt.Errorf("process %d still runs", s.current.PID)
	}
	if err == nil {
		s.current = p // it may end before Spawn returns
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	_, _, err = s.conn.WriteMsgUnix([]byte{requestStart}, unix.UnixRights(int(file.Fd())), nil)
	if err == nil {
		r, ok := <-s.started
		switch {
		case !ok:
			s.mu.Lock()
			defer s.mu.Unlock()
			return nil, s.err
		case r.Error == "":
			p.PID = r.PID
			return p, nil
		}
		err = errors.New(r.Error)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = nil
	return nil, err
}

// Ended is closed when the process has ended, or its end can no longer be noticed.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// State describes the end of the process. The code is that of os.ProcessState.ExitCode.
func (p *Process) State() (text string, code int) {
	<-p.ended
	return p.state, p.code
}

// Kill ends the process, unless it has ended.
func (p *Process) Kill() {
	_, _ = p.spawner.conn.Write([]byte{requestKill}) // fails if the spawner has ended: receive notices it
}
