package cuda

import "fmt"

// Function is a kernel of a module. It goes with the module.
type Function struct {
	drv    *Driver
	handle uintptr
	name   string
}

// Function finds a kernel by its name.
func (m *Module) Function(name string) (*Function, error) {
	f := &Function{drv: m.ctx.drv, name: name}
	if err := f.drv.call(cuModuleGetFunction, &f.handle, m.handle, name); err != nil {
		return nil, fmt.Errorf("find kernel %s: %w", name, err)
	}
	return f, nil
}

// FunctionAttribute is a property of a kernel.
type FunctionAttribute int32

// What a kernel takes of a multiprocessor. MaxDynamicShared can be set.
const (
	FunctionMaxThreads FunctionAttribute = 0 // threads of a block, at most
	FunctionShared     FunctionAttribute = 1 // bytes of shared memory of a block, without dynamic
	FunctionLocal      FunctionAttribute = 3 // bytes of local memory of a thread: what did not fit into registers
	FunctionRegisters  FunctionAttribute = 4 // registers of a thread
	MaxDynamicShared   FunctionAttribute = 8 // bytes of dynamic shared memory that a launch may ask for
)

// Attribute reads a property of the kernel.
func (f *Function) Attribute(a FunctionAttribute) (int, error) {
	var v int32
	if err := f.drv.call(cuFuncGetAttribute, &v, a, f.handle); err != nil {
		return 0, fmt.Errorf("read attribute %d of kernel %s: %w", a, f.name, err)
	}
	return int(v), nil
}

// SetAttribute sets a property of the kernel.
func (f *Function) SetAttribute(a FunctionAttribute, value int) error {
	if err := f.drv.call(cuFuncSetAttribute, f.handle, a, value); err != nil {
		return fmt.Errorf("set attribute %d of kernel %s to %d: %w", a, f.name, value, err)
	}
	return nil
}

// BlocksPerMultiprocessor is how many blocks of so many threads, with so many
// bytes of dynamic shared memory each, run on a multiprocessor at once.
func (f *Function) BlocksPerMultiprocessor(threads, shared int) (int, error) {
	var blocks int32
	if err := f.drv.call(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, f.handle, threads, uint64(shared)); err != nil {
		return 0, fmt.Errorf("ask the occupancy of kernel %s: %w", f.name, err)
	}
	return int(blocks), nil
}
