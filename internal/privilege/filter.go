package privilege

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data.
const (
	dataNumber    = 0
	dataArch      = 4
	dataArguments = 16 // 8 bytes each; on little-endian machines the low half is the first
)

// x32Bit marks system calls of the x32 ABI, which has the architecture of amd64.
const x32Bit = 0x4000_0000

// architectures are the values of seccomp_data.arch by GOARCH.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

func refuse(errno unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

var allow = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}

// prologue refuses system calls of other ABIs and loads the number of the call. (github.com/elastic/go-seccomp-bpf
// applies the default action to other ABIs, which is allow in a list of refused calls.)
func prologue() []bpf.Instruction {
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: dataArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: architectures[runtime.GOARCH], SkipTrue: 1},
		refuse(unix.EPERM),
		bpf.LoadAbsolute{Off: dataNumber, Size: 4},
	}
	if runtime.GOARCH == "amd64" {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32Bit, SkipTrue: 1}, refuse(unix.EPERM))
	}
	return program
}

// on appends instructions for system calls, each followed by those of the next ones.
func on(program []bpf.Instruction, result bpf.Instruction, calls ...uint32) []bpf.Instruction {
	for _, n := range calls {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: n, SkipTrue: 1}, result)
	}
	return program
}

// restrict appends instructions that allow a system call if all conditions hold for the low half of one of its
// arguments, and else refuse it.
func restrict(program []bpf.Instruction, call, argument uint32, conditions ...bpf.JumpIf) []bpf.Instruction {
	program = append(program,
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: call, SkipTrue: uint8(2*len(conditions) + 2)},
		bpf.LoadAbsolute{Off: dataArguments + 8*argument, Size: 4})
	for _, c := range conditions {
		c.SkipTrue = 1
		program = append(program, c, refuse(unix.EPERM))
	}
	return append(program, allow)
}

// restrictSignals restricts signals to this process.
func restrictSignals(program []bpf.Instruction) []bpf.Instruction {
	own := bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(os.Getpid())}
	return restrict(restrict(program, unix.SYS_KILL, 0, own), unix.SYS_TGKILL, 0, own)
}

// install installs a filter for the calling thread, or for all threads of the process. Threads must have no other
// filters than the caller then. It needs no_new_privs, which it sets.
func install(program []bpf.Instruction, allThreads bool) error {
	if _, supported := architectures[runtime.GOARCH]; !supported {
		return nil
	}
	raw, err := bpf.Assemble(program)
	if err != nil {
		return fmt.Errorf("assemble the seccomp filter: %w", err)
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	// Without SPEC_ALLOW, kernels before 5.16 disable speculative stores, which slows packets down.
	flags := uintptr(unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW)
	if allThreads {
		flags |= unix.SECCOMP_FILTER_FLAG_TSYNC
	}
	if err := seccomp(flags, filter); err != nil {
		return fmt.Errorf("install the seccomp filter: %w", err)
	}
	return nil
}
