package cuda

import (
	"errors"
	"testing"
)

func TestErrorNamesCallResultAndHint(t *testing.T) {
	f := openFake(t)
	c := f.context(t)
	f.fail("alloc_by_lookup", OutOfMemory)
	_, err := c.Alloc(1 << 40)
	want := "allocate 1099511627776 bytes on GPU 0: cuMemAlloc(bytes=1099511627776): " +
		"out of memory (CUDA_ERROR_OUT_OF_MEMORY, 2): free memory of the device or ask for less; `nvidia-smi` shows who holds it"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if !errors.Is(err, OutOfMemory) || Sticky(err) {
		t.Errorf("it is not OutOfMemory alone: %v", err)
	}
}

func TestErrorsOfHotCalls(t *testing.T) {
	f := openFake(t)
	c := f.context(t)
	s := got(c.NewStream(0))(t)
	f.fail("cuMemsetD8Async", IllegalAddress)
	err := s.Fill(0x7f0000000000, 7, 4096)
	failsWith(t, err, "cuMemsetD8Async(to=0x7f0000000000, value=7, count=4096, stream=80)",
		"an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS, 700)", lost, "compute-sanitizer")
	if !Sticky(err) {
		t.Error("Sticky is false")
	}
}

func TestErrorOfUnknownResult(t *testing.T) {
	f := openFake(t)
	c := f.context(t)
	f.fail("cuCtxSynchronize", 12345)
	failsWith(t, c.Synchronize(), "cuCtxSynchronize(): result 12345, unknown to the driver")
}

func TestSticky(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"nothing failed", nil, false},
		{"not of the driver", errors.New("x"), false},
		{"no driver", ErrNoDriver, false},
		{"out of memory", &Error{Result: OutOfMemory}, false},
		{"memory of the GPU failed", &Error{Result: ECCUncorrectable}, true},
		{"kernel failed", &Error{Result: LaunchFailed}, true},
	}
	for _, tt := range tests {
		if got := Sticky(tt.err); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestStickyResultsHaveTheHint(t *testing.T) {
	for r := range sticky {
		failsWith(t, &Error{Call: "f()", Result: r, Text: "x"}, lost)
	}
}
