package cuda

import (
	"errors"
	"fmt"
	"runtime"
)

// Module is code that is loaded on a device.
type Module struct {
	ctx    *Context
	handle moduleHandle // 0: closed
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

// Load loads PTX, which the driver compiles, or a cubin. On failure the Error has the compiler's
// messages. It waits for running kernels.
func (c *Context) Load(image []byte) (*Module, error) {
	info, failed := make([]byte, 16<<10), make([]byte, 16<<10)
	options := []uint32{jitInfoLog, jitInfoLogSize, jitErrorLog, jitErrorLogSize, jitLogVerbose}
	values := []uintptr{address(info), uintptr(len(info) - 1), address(failed), uintptr(len(failed) - 1), 1}
	text := append(append([]byte(nil), image...), 0) // PTX is a C string

	m := &Module{ctx: c}
	err := c.drv.cuModuleLoadDataEx.call(&m.handle, text, uint32(len(options)), options, values)
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

// Log returns the compiler's messages: registers and memory of each kernel. It is empty for code
// from the driver's compilation cache.
func (m *Module) Log() string { return m.log }

// Global returns the address and the size in bytes of a variable of the module.
func (m *Module) Global(name string) (DevicePtr, int, error) {
	var at DevicePtr
	var size uint64
	if err := m.ctx.drv.cuModuleGetGlobal.call(&at, &size, m.handle, name); err != nil {
		return 0, 0, fmt.Errorf("find variable %s: %w", name, err)
	}
	return at, int(size), nil
}

// Close unloads the module. It waits for running kernels.
func (m *Module) Close() error {
	if m.handle == 0 {
		return nil
	}
	handle := m.handle
	m.handle = 0
	if err := m.ctx.drv.cuModuleUnload.call(handle); err != nil {
		return fmt.Errorf("unload a module: %w", err)
	}
	return nil
}
