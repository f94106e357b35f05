package cuda

import "fmt"

// Function is a kernel of a module. Closing the module invalidates it.
type Function struct {
	drv    *Driver
	handle functionHandle
	name   string
}

// Function finds a kernel by its name.
func (m *Module) Function(name string) (*Function, error) {
	f := &Function{drv: m.ctx.drv, name: name}
	if err := f.drv.cuModuleGetFunction.call(&f.handle, m.handle, name); err != nil {
		return nil, fmt.Errorf("find kernel %s: %w", name, err)
	}
	return f, nil
}

// FunctionAttribute is a numeric property of a kernel (CUfunction_attribute).
type FunctionAttribute int32

// Resources of a kernel. MaxDynamicShared can be set.
const (
	FunctionMaxThreads FunctionAttribute = 0 // maximum threads of a block
	FunctionShared     FunctionAttribute = 1 // bytes of static shared memory of a block
	FunctionLocal      FunctionAttribute = 3 // bytes of local memory of a thread: spilled registers
	FunctionRegisters  FunctionAttribute = 4 // registers of a thread
	MaxDynamicShared   FunctionAttribute = 8 // maximum bytes of dynamic shared memory of a block
)

// Attribute reads a property of the kernel.
func (f *Function) Attribute(a FunctionAttribute) (int, error) {
	var v int32
	if err := f.drv.cuFuncGetAttribute.call(&v, a, f.handle); err != nil {
		return 0, fmt.Errorf("read attribute %d of kernel %s: %w", a, f.name, err)
	}
	return int(v), nil
}

// SetAttribute sets a property of the kernel.
func (f *Function) SetAttribute(a FunctionAttribute, value int) error {
	if err := f.drv.cuFuncSetAttribute.call(f.handle, a, int32(value)); err != nil {
		return fmt.Errorf("set attribute %d of kernel %s to %d: %w", a, f.name, value, err)
	}
	return nil
}

// BlocksPerMultiprocessor returns the occupancy: how many blocks of a number of threads, each with
// shared bytes of dynamic shared memory, are resident on a multiprocessor.
func (f *Function) BlocksPerMultiprocessor(threads, shared int) (int, error) {
	var blocks int32
	if err := f.drv.cuOccupancyMaxActiveBlocksPerMultiprocessor.call(&blocks, f.handle, int32(threads), uint64(shared)); err != nil {
		return 0, fmt.Errorf("read the occupancy of kernel %s: %w", f.name, err)
	}
	return int(blocks), nil
}
