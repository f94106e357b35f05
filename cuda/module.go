package cuda

import (
	"errors"
	"fmt"
	"runtime"
)

// Module is code on a device.
type Module struct {
	ctx    *Context
	handle uintptr // 0: closed
	log    string
}

// Options of the driver's compiler (CUjit_option).
const (
	jitInfoLog      = uint32(3)
	jitInfoLogSize  = uint32(4)
	jitErrorLog     = uint32(5)
	jitErrorLogSize = uint32(6)
	jitLogVerbose   = uint32(12)
)

// Load compiles PTX for the device, or takes code that was compiled for it
// (a cubin), and loads it. If that fails, the Error has the compiler's messages. It
// waits for kernels that run.
func (c *Context) Load(image []byte) (*Module, error) {
	info, failed := make([]byte, 16<<10), make([]byte, 16<<10)
	options := []uint32{jitInfoLog, jitInfoLogSize, jitErrorLog, jitErrorLogSize, jitLogVerbose}
	values := []uintptr{address(info), uintptr(len(info) - 1), address(failed), uintptr(len(failed) - 1), 1}
	text := append(append([]byte(nil), image...), 0) // PTX is a C string

	m := &Module{ctx: c}
	err := c.drv.call(cuModuleLoadDataEx, &m.handle, text, len(options), options, values)
	m.log = goString(&info[0])
	log := goString(&failed[0])
	runtime.KeepAlive(info)
	runtime.KeepAlive(failed)
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			e.Log = log
		}
		return nil, fmt.Errorf("load %d bytes of code: %w", len(image), err)
	}
	return m, nil
}

// Log is what the compiler said of the module: registers and memory of each
// kernel. It is empty for code that the driver had compiled before.
func (m *Module) Log() string { return m.log }

// Global returns where a variable of the module is and how many bytes it has.
func (m *Module) Global(name string) (DevicePtr, int, error) {
	var at DevicePtr
	var size uint64
	if err := m.ctx.drv.call(cuModuleGetGlobal, &at, &size, m.handle, name); err != nil {
		return 0, 0, fmt.Errorf("find variable %s: %w", name, err)
	}
	return at, int(size), nil
}

// Close unloads the module. It waits for kernels that run.
func (m *Module) Close() error {
	if m.handle == 0 {
		return nil
	}
	handle := m.handle
	m.handle = 0
	if err := m.ctx.drv.call(cuModuleUnload, handle); err != nil {
		return fmt.Errorf("unload a module: %w", err)
	}
	return nil
}
