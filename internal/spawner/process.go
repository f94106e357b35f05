package spawner

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// connectionFD is the file descriptor of the connection, in the spawner and in the processes that it starts.
const connectionFD = 3

// maxReply is the largest size of a reply in bytes.
const maxReply = 8 << 10

// Run is the main function of a spawner. In other processes it returns at once. Call it first.
func Run() {
	if os.Args[0] != name {
		return
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(command []string) error {
	if len(command) == 0 {
		return fmt.Errorf("no program")
	}
	_ = os.WriteFile("/proc/self/comm", []byte(name), 0) // else exe
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("prevent ptrace: %w", err)
	}
	// Signals to the group or the unit are for the router. Its end ends the connection.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGABRT)
	runtime.GOMAXPROCS(1)
	unix.CloseOnExec(connectionFD)
	conn, err := connect(connectionFD)
	if err != nil {
		return err
	}
	w := &waiter{conn: conn, command: command, ended: make(chan struct{})}
	close(w.ended)
	for buf, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4)); ; {
		n, size, flags, _, err := conn.ReadMsgUnix(buf, oob)
		if err != nil || n == 0 { // the router has ended
			return nil
		}
		files, err := filesOf(oob[:size])
		if err != nil || flags&(unix.MSG_CTRUNC|unix.MSG_TRUNC) != 0 {
			files = closeAll(files) // Start fails without a file
		}
		switch buf[0] {
		case requestStart:
			w.send(w.start(files))
		case requestKill:
			w.kill()
		}
		closeAll(files)
	}
}

// filesOf returns the files of a control message.
func filesOf(oob []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	for _, m := range messages {
		fds, rightsErr := unix.ParseUnixRights(&m)
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "connection"))
		}
		if err == nil {
			err = rightsErr
		}
	}
	return files, err
}

func closeAll(files []*os.File) []*os.File {
	for _, f := range files {
		_ = f.Close()
	}
	return nil
}

// waiter starts one process at a time and waits for it.
type waiter struct {
	conn    *net.UnixConn
	command []string
	cmd     *exec.Cmd
	ended   chan struct{} // closed: no process runs
}

// start starts the program with a file.
func (w *waiter) start(files []*os.File) reply {
	select {
	case <-w.ended:
	default:
		return reply{Error: fmt.Sprintf("process %d still runs", w.cmd.Process.Pid)}
	}
	if len(files) != 1 {
		return reply{Error: fmt.Sprintf("a request with %d files, not 1", len(files))}
	}
	cmd := exec.Command(w.command[0], w.command[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdout, os.Stderr, files
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "WATCHDOG_PID=") }) // names the router
	if err := cmd.Start(); err != nil {
		return reply{Error: fmt.Sprintf("start %s: %v; install a binary for this host there", w.command[0], err)}
	}
	ended := make(chan struct{})
	w.cmd, w.ended = cmd, ended
	started := reply{PID: cmd.Process.Pid}
	go func() {
		_ = cmd.Wait()
		close(ended)
		w.send(reply{Ended: cmd.ProcessState.String(), Code: cmd.ProcessState.ExitCode()})
	}()
	return started
}

// kill kills the process that runs.
func (w *waiter) kill() {
	select {
	case <-w.ended:
	default:
		_ = w.cmd.Process.Kill() // it may have ended meanwhile
	}
}

// send sends a reply. It fails if the router has ended, which the next read notices.
func (w *waiter) send(r reply) {
	text, _ := json.Marshal(r) // no value of a reply fails
	_, _ = w.conn.Write(text)
}
