package privilege

import (
	"sync"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// namespaceFlags are the flags of clone that create namespaces.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// refusedCalls are system calls that no part of a running router makes, and attackers do: other processes' memory, namespaces, mounts, modules, the machine, and calls that evade filters.
// The driver of the GPU makes many others, so the list is one of refused calls.
var refusedCalls = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
	unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_MOUNT_SETATTR,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SYSLOG,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	unix.SYS_USERFAULTFD, unix.SYS_PERF_EVENT_OPEN, unix.SYS_PERSONALITY, unix.SYS_VHANGUP,
	unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETREUID, unix.SYS_SETREGID, unix.SYS_SETRESUID, unix.SYS_SETRESGID, unix.SYS_SETGROUPS, unix.SYS_SETFSUID, unix.SYS_SETFSGID,
	// Operations of io_uring pass no filter.
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
}

// processFilter returns the filter of all threads.
func processFilter() []bpf.Instruction {
	p := on(prologue(), refuse(unix.EPERM), refusedCalls...)
	p = on(p, refuse(unix.EPERM), refusedArchCalls...)
	// Arguments of clone3 are in memory, which filters cannot read. The C library tries clone next.
	p = on(p, refuse(unix.ENOSYS), unix.SYS_CLONE3)
	p = refuseProcesses(p)
	p = restrict(p, unix.SYS_CLONE, 0, bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: namespaceFlags})
	return append(p, allow)
}

// refuseProcesses appends instructions that refuse to start programs and processes and to signal others.
func refuseProcesses(p []bpf.Instruction) []bpf.Instruction {
	p = on(p, refuse(unix.EPERM), unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_TKILL, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO)
	p = append(p,
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE, SkipTrue: 4},
		bpf.LoadAbsolute{Off: dataArguments, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.CLONE_THREAD, SkipTrue: 1},
		refuse(unix.EPERM),
		bpf.LoadAbsolute{Off: dataNumber, Size: 4})
	return restrictSignals(p)
}

// ConfineProcess refuses system calls that a running router does not need, in all threads, also in those of
// libraries. Call it after the start of the engine, whose driver may start programs, and before ConfineWorker. Later
// calls do nothing.
func ConfineProcess() error {
	confined.Lock()
	defer confined.Unlock()
	if confined.done {
		return nil
	}
	err := install(processFilter(), true)
	confined.done = err == nil
	return err
}

var confined struct {
	sync.Mutex
	done bool
}
