package gcm

import "golang.org/x/sys/cpu"

// Available reports whether this processor has the instructions.
func Available() bool {
	return cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VAES && cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasBMI2
}
