package privilege

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

// childVar makes the test binary run one of children instead of the tests.
const childVar = "PRIVILEGE_TEST_CHILD"

var children = map[string]func() error{
	"confined": confinedChild,
	"reduced": func() error {
		return printStatus(Reduce(Options{UID: -1, GID: -1, Prepare: func() error { fmt.Println("prepared"); return nil }}))
	},
	"nobody": func() error {
		return printStatus(Reduce(Options{UID: 65534, GID: 65534, Group: "daemon", Realtime: true}))
	},
	"memory": func() error {
		warning, err := ProtectMemory()
		fmt.Println("warning:", warning)
		return printStatus(err)
	},
}

func TestMain(m *testing.M) {
	if f, ok := children[os.Getenv(childVar)]; ok {
		if err := f(); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runChild returns the output of a child.
func runChild(t *testing.T, name string) string {
	t.Helper()
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), childVar+"="+name)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
	return string(out)
}

func printStatus(err error) error {
	if err != nil {
		return err
	}
	text, err := os.ReadFile("/proc/self/status")
	fmt.Printf("%s", text)
	limits, _ := os.ReadFile("/proc/self/limits")
	fmt.Printf("%s", limits)
	return err
}

func confinedChild() error {
	// A thread that exists before is confined, too.
	begin, result := make(chan struct{}), make(chan unix.Errno)
	go func() {
		runtime.LockOSThread()
		<-begin
		_, _, errno := unix.RawSyscall(unix.SYS_UNSHARE, unix.CLONE_NEWNS, 0, 0)
		result <- errno
	}()
	if err := ConfineProcess(); err != nil {
		return err
	}
	close(begin)
	if errno := <-result; errno != unix.EPERM {
		return fmt.Errorf("another thread: %v", errno)
	}
	for name, call := range map[string][]uintptr{
		"execve": {unix.SYS_EXECVE}, "execveat": {unix.SYS_EXECVEAT}, "ptrace": {unix.SYS_PTRACE, unix.PTRACE_ATTACH, uintptr(os.Getppid())}, "mount": {unix.SYS_MOUNT},
		"fsopen": {unix.SYS_FSOPEN}, "init_module": {unix.SYS_INIT_MODULE}, "setns": {unix.SYS_SETNS}, "fork": {unix.SYS_CLONE, uintptr(unix.SIGCHLD)},
		"clone to a user namespace": {unix.SYS_CLONE, unix.CLONE_NEWUSER | unix.CLONE_THREAD}, "kill": {unix.SYS_KILL, uintptr(os.Getppid())},
		"io_uring": {unix.SYS_IO_URING_SETUP, 1}, "x32 execve": {x32Bit | 520}, "keyctl": {unix.SYS_KEYCTL}, "bpf is allowed": {unix.SYS_BPF, 9999},
	} {
		call = append(call, 0, 0, 0)
		_, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3])
		if errno != unix.EPERM && (name != "bpf is allowed" || errno == 0) {
			return fmt.Errorf("%s: %v, want EPERM", name, errno)
		}
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0); errno != unix.ENOSYS {
		return fmt.Errorf("clone3: %v, want ENOSYS", errno)
	}
	if err := exec.Command("/bin/true").Run(); err == nil {
		return fmt.Errorf("a program was started")
	}
	if _, err := os.ReadFile("/etc/passwd"); err != nil { // state files and reload
		return err
	}
	done := make(chan error)
	go func() { // new threads start, and can be confined further
		runtime.LockOSThread()
		done <- ConfineWorker()
	}()
	if err := <-done; err != nil {
		return err
	}
	return ConfineProcess() // beside the confined thread
}

// No thread of a confined process starts or traces processes, or changes namespaces, mounts, modules and users.
func TestProcessIsConfined(t *testing.T) { runChild(t, "confined") }

// Reduce leaves the kept capabilities, and no way to get others.
func TestReduceLeavesTheKeptCapabilities(t *testing.T) {
	needRoot(t)
	out := runChild(t, "reduced")
	want := fmt.Sprintf("%016x", uint64(kept(false)))
	for _, line := range []string{"prepared", "CapPrm:\t" + want, "CapEff:\t" + want, "CapBnd:\t" + want, "NoNewPrivs:\t1", "Uid:\t0\t0\t0\t0"} {
		if !strings.Contains(out, line) {
			t.Errorf("the status has no line %q:\n%s", line, out)
		}
	}
	if strings.Count(out, "prepared") != 1 {
		t.Errorf("prepared repeatedly:\n%s", out)
	}
}

func TestReduceBecomesAnotherUser(t *testing.T) {
	needRoot(t)
	out := runChild(t, "nobody")
	want := fmt.Sprintf("%016x", uint64(kept(true)))
	for _, line := range []string{"CapPrm:\t" + want, "CapEff:\t" + want, "CapBnd:\t" + want, "NoNewPrivs:\t1", "Uid:\t65534\t65534\t65534\t65534", "Gid:\t65534\t65534", "Groups:\t1 65534"} {
		if !strings.Contains(out, line) {
			t.Errorf("the status has no line %q:\n%s", line, out)
		}
	}
}

// Memory is locked, and no core is dumped.
func TestMemoryIsProtected(t *testing.T) {
	needRoot(t)
	out := runChild(t, "memory")
	if !strings.Contains(out, "warning: <nil>") || lockMemory && strings.Contains(out, "VmLck:\t       0 kB") {
		t.Errorf("memory is not locked:\n%s", out)
	}
	if fields := strings.Fields(out[strings.Index(out, "Max core file size"):]); fields[4] != "0" || fields[5] != "0" {
		t.Errorf("limit of core files: %q", fields[:6])
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
}

// Calls of 32-bit ABIs, which number calls differently, are refused by both filters.
func TestFiltersRefuseOtherABIs(t *testing.T) {
	for name, program := range map[string][]bpf.Instruction{"process": processFilter(), "worker": workerFilter()} {
		vm, err := bpf.NewVM(program)
		require.NoError(t, err)
		run := func(arch, number uint32) uint32 {
			var data [64]byte // the virtual machine reads big-endian words, the kernel its own
			binary.BigEndian.PutUint32(data[dataNumber:], number)
			binary.BigEndian.PutUint32(data[dataArch:], arch)
			n, err := vm.Run(data[:])
			require.NoError(t, err)
			return uint32(n)
		}
		if got := run(architectures[runtime.GOARCH], unix.SYS_FUTEX); got != unix.SECCOMP_RET_ALLOW {
			t.Errorf("%s: futex: %#x", name, got)
		}
		const refused = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		for number := range uint32(500) {
			if got := run(unix.AUDIT_ARCH_I386, number); got != refused {
				t.Errorf("%s: call %d of i386: %#x", name, number, got)
			}
		}
	}
}
