package privilege

import "golang.org/x/sys/unix"

// refusedArchCalls are the refused calls that only some architectures have.
var refusedArchCalls = []uint32{unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB}
