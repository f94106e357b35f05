package cuda

import (
	"errors"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

func TestModuleKeepsCompilerLog(t *testing.T) {
	f := openFake(t)
	c := f.context(t)
	m := got(c.Load([]byte("good")))(t)
	f.expect(t, `cuModuleLoadDataEx("good", 5)`)
	if m.Log() != "ptxas info: Used 12 registers" {
		t.Errorf("log %q", m.Log())
	}

	_, err := c.Load([]byte("bad"))
	failsWith(t, err, "load 3 bytes of code: cuModuleLoadDataEx(options=5)", "CUDA_ERROR_INVALID_PTX, 218",
		": ptxas line 7; error: unknown symbol; ptxas fatal: aborted")
	var e *Error
	if !errors.As(err, &e) || e.Log != "ptxas line 7; error: unknown symbol\nptxas fatal: aborted\n" {
		t.Errorf("the log differs: %#v", e)
	}
}

func TestModuleParts(t *testing.T) {
	f := openFake(t)
	c := f.context(t)
	m := got(c.Load([]byte("good")))(t)
	f.reset()
	fn := got(m.Function("add"))(t)
	f.expect(t, `cuModuleGetFunction(0x30, "add")`)
	_, err := m.Function("subtract")
	failsWith(t, err, "find kernel subtract: cuModuleGetFunction(module=48, name=\"subtract\")", "500")
	if !errors.Is(err, NotFound) {
		t.Error("the error is not NotFound")
	}

	f.reset()
	at, size, err := m.Global("table")
	require.NoError(t, err)
	if at != 0x7000 || size != 48 {
		t.Errorf("variable at %#x of %d bytes", at, size)
	}
	require.NoError(t, fn.SetAttribute(MaxDynamicShared, 100000))
	if v := got(fn.Attribute(FunctionRegisters))(t); v != 24 {
		t.Errorf("%d registers", v)
	}
	if n := got(fn.BlocksPerMultiprocessor(256, 1024))(t); n != 8 {
		t.Errorf("%d blocks", n)
	}
	f.expect(t, `cuModuleGetGlobal_v2(0x30, "table")`, "cuFuncSetAttribute(0xf0, 8, 100000)", "cuFuncGetAttribute(4, 0xf0)",
		"cuOccupancyMaxActiveBlocksPerMultiprocessor(0xf0, 256, 1024)")
}
