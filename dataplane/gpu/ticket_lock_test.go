package gpu

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"
)

// TestTicketLockKeepsTheOrder: threads in place of warps take the sequence numbers of two workers' tiles under the kernel's ticket lock.
// They are in the order of batches, those of the host included.
func TestTicketLockKeepsTheOrder(t *testing.T) {
	program := compile(t, "testdata/lock.c")
	byDevice, byHost := 0, 0
	for seed := range 40 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		out, err := exec.CommandContext(ctx, program, fmt.Sprint(seed)).CombinedOutput()
		cancel()
		if err != nil {
			t.Fatalf("seed %d: %v: %s", seed, err, out)
		}
		var device, host int
		if _, err := fmt.Sscan(string(out), &device, &host); err != nil {
			t.Fatalf("seed %d: %v: %q", seed, err, out)
		}
		byDevice, byHost = byDevice+device, byHost+host
	}
	if byDevice < 10_000 || byHost < 1000 {
		t.Errorf("only %d batches got numbers from the device, and %d from the host", byDevice, byHost)
	}
}
