package privilege

import (
	"io"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

// onThread runs f on a thread of its own, which ends with it.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		f()
	}()
	<-done
}

// hostileCalls are system calls of an attacker who runs code in the router.
func hostileCalls(t *testing.T) map[string]func() unix.Errno {
	path, err := unix.BytePtrFromString("/etc/passwd")
	require.NoError(t, err)
	at := uintptr(unsafe.Pointer(path))
	raw := func(call uintptr, args ...uintptr) func() unix.Errno {
		return func() unix.Errno {
			var a [6]uintptr
			copy(a[:], args)
			_, _, errno := unix.RawSyscall6(call, a[0], a[1], a[2], a[3], a[4], a[5])
			runtime.KeepAlive(path)
			return errno
		}
	}
	cwd := ^uintptr(99) // AT_FDCWD
	return map[string]func() unix.Errno{
		"open a file":                      raw(unix.SYS_OPENAT, cwd, at, unix.O_RDONLY),
		"open a socket":                    raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM),
		"connect":                          raw(unix.SYS_CONNECT, 0, at, 16),
		"BPF":                              raw(unix.SYS_BPF, 0, 0, 0),
		"ioctl":                            raw(unix.SYS_IOCTL, 0, 0, 0),
		"start a program":                  raw(unix.SYS_EXECVE, at, 0, 0),
		"start a program by descriptor":    raw(unix.SYS_EXECVEAT, cwd, at, 0, 0, 0),
		"start a process":                  raw(unix.SYS_CLONE, uintptr(unix.SIGCHLD)),
		"start a process by clone3":        raw(unix.SYS_CLONE3, 0, 0),
		"create a user namespace":          raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER),
		"clone to a namespace":             raw(unix.SYS_CLONE, unix.CLONE_NEWUSER|unix.CLONE_THREAD),
		"trace a process":                  raw(unix.SYS_PTRACE, unix.PTRACE_ATTACH, uintptr(os.Getppid())),
		"read another process's memory":    raw(unix.SYS_PROCESS_VM_READV, uintptr(os.Getppid()), 0, 0, 0, 0, 0),
		"signal another process":           raw(unix.SYS_KILL, uintptr(os.Getppid()), 0),
		"signal a thread of another":       raw(unix.SYS_TGKILL, uintptr(os.Getppid()), uintptr(os.Getppid()), 0),
		"load a module":                    raw(unix.SYS_FINIT_MODULE, 0, at, 0),
		"mount":                            raw(unix.SYS_MOUNT, at, at, at, 0, 0),
		"set up io_uring":                  raw(unix.SYS_IO_URING_SETUP, 1, 0),
		"become another user":              raw(unix.SYS_SETRESUID, 1, 1, 1),
		"map memory to execute":            raw(unix.SYS_MMAP, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON, ^uintptr(0), 0),
		"make memory executable":           raw(unix.SYS_MPROTECT, 0, 0, unix.PROT_EXEC),
		"allow core dumps":                 raw(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1),
		"an open of another ABI (x32)":     raw(x32Bit|257, cwd, at, unix.O_RDONLY),
		"an execve of another ABI (x32)":   raw(x32Bit|520, at, 0, 0),
		"remove the limit of open files":   raw(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, 0, 0),
		"duplicate another's descriptor":   raw(unix.SYS_PIDFD_GETFD, 0, 0, 0),
		"send a descriptor to a process":   raw(unix.SYS_SENDMSG, 0, 0, 0),
		"accept a connection":              raw(unix.SYS_ACCEPT4, 0, 0, 0, 0),
		"attach shared memory":             raw(unix.SYS_SHMAT, 0, 0, 0),
		"change a mode":                    raw(unix.SYS_FCHMODAT, cwd, at, 0o777),
		"remove a file":                    raw(unix.SYS_UNLINKAT, cwd, at, 0),
		"write a file with an open handle": raw(unix.SYS_OPEN_BY_HANDLE_AT, 0, at, 0),
	}
}

// A compromised worker thread can neither open files or sockets, nor start or trace processes.
func TestWorkerThreadsAreConfined(t *testing.T) {
	calls := hostileCalls(t)
	onThread(func() {
		if err := ConfineWorker(); err != nil {
			t.Error(err)
			return
		}
		for name, call := range calls {
			if errno := call(); errno != unix.EPERM {
				t.Errorf("%s: %v, want EPERM", name, errno)
			}
		}
		if _, err := os.ReadFile("/etc/passwd"); err == nil {
			t.Error("a file was read")
		}
		if _, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{}); err == nil {
			t.Error("a process was started")
		}
	})
	if _, err := os.ReadFile("/etc/passwd"); err != nil { // on another thread
		t.Error(err)
	}
}

// Go's runtime works on a confined thread: memory, garbage collection, locks, channels, timers and panics.
func TestRuntimeWorksOnConfinedThreads(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	var kept [][]byte
	onThread(func() {
		if err := ConfineWorker(); err != nil {
			t.Error(err)
			return
		}
		for i := range 200 {
			kept = append(kept, make([]byte, 1<<20))
			if i%50 == 0 {
				runtime.GC()
				kept = kept[:0]
			}
		}
		var all sync.WaitGroup
		for range 100 { // new threads start although this one may not create them
			all.Go(func() { time.Sleep(time.Millisecond) })
		}
		all.Wait()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a nil pointer does not panic")
				}
			}()
			var p *int
			*p++
		}()
		if _, err := w.Write([]byte("log line\n")); err != nil {
			t.Error(err)
		}
		w.Close()
	})
	if text, err := io.ReadAll(r); err != nil || string(text) != "log line\n" {
		t.Errorf("%q, %v", text, err)
	}
}
