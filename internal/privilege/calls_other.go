//go:build !amd64

package privilege

// refusedArchCalls are the refused calls that only some architectures have.
var refusedArchCalls []uint32
