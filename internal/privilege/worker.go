package privilege

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// workerCalls are the system calls of a worker's thread.
var workerCalls = []uint32{
	// Rings of AF_XDP, and TUN queues of host traffic.
	unix.SYS_SENDTO, unix.SYS_RECVFROM, unix.SYS_PPOLL, unix.SYS_READ, unix.SYS_WRITEV,
	// A port that returns after its interface was created again (afxdp.Port.Reopen).
	unix.SYS_GETSOCKOPT, unix.SYS_DUP3, unix.SYS_CLOSE,
	// Logs.
	unix.SYS_WRITE,
	// Go's runtime: locks, sleeps, memory, the poller of a garbage collection, signals for preemption, the end of the
	// thread.
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_SCHED_YIELD, unix.SYS_CLOCK_GETTIME, unix.SYS_RESTART_SYSCALL,
	unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGACTION, unix.SYS_SIGALTSTACK,
	unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_GETRANDOM, unix.SYS_EPOLL_PWAIT, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}

// workerFilter returns the filter of a worker's thread.
func workerFilter() []bpf.Instruction {
	data := bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: unix.PROT_EXEC}
	p := on(prologue(), allow, workerCalls...)
	p = restrict(p, unix.SYS_MMAP, 2, data)
	p = restrict(p, unix.SYS_MPROTECT, 2, data)
	p = restrict(p, unix.SYS_PRCTL, 0, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PR_SET_VMA}) // names of mappings
	return append(restrictSignals(p), refuse(unix.EPERM))
}

// ConfineWorker refuses all system calls of the calling thread but those of a worker. The goroutine must be locked
// to the thread, and end with it.
func ConfineWorker() error { return install(workerFilter(), false) }
