package cuda

import (
	"errors"
	"fmt"
	"strings"
)

// Device is a GPU. Its methods may be called from any goroutine.
type Device struct {
	drv    *Driver
	handle deviceHandle
}

// Attribute is a numeric property of a device (CUdevice_attribute).
type Attribute int32

// Attributes of DeviceInfo and of launches.
const (
	MaxThreadsPerBlock          Attribute = 1
	MaxSharedPerBlock           Attribute = 8 // bytes; MaxDynamicShared raises the limit
	WarpSize                    Attribute = 10
	ClockRate                   Attribute = 13 // kHz
	Multiprocessors             Attribute = 16
	CanMapHostMemory            Attribute = 19
	ComputeMode                 Attribute = 20 // 0: shared; 2: prohibited; 3: one process
	MemoryClockRate             Attribute = 36 // kHz
	MemoryBusWidth              Attribute = 37 // bits
	L2CacheBytes                Attribute = 38
	MaxThreadsPerMultiprocessor Attribute = 39
	AsyncEngines                Attribute = 40
	UnifiedAddressing           Attribute = 41
	ComputeMajor                Attribute = 75
	ComputeMinor                Attribute = 76
	SharedPerMultiprocessor     Attribute = 81 // bytes
	RegistersPerMultiprocessor  Attribute = 82
	MaxBlocksPerMultiprocessor  Attribute = 106
	MaxSharedPerBlockOptin      Attribute = 97  // bytes, the limit of MaxDynamicShared
	ReservedSharedPerBlock      Attribute = 111 // bytes that the driver takes of each block
	HostRegisterSupported       Attribute = 99
	MPSEnabled                  Attribute = 133 // 1: contexts of this process are shared by MPS; since CUDA 12.2
	HostNUMANode                Attribute = 134 // -1: none
)

// Attribute returns one property of the device. A driver older than the attribute returns
// InvalidValue.
func (d *Device) Attribute(a Attribute) (int, error) {
	var v int32
	if err := d.drv.cuDeviceGetAttribute.call(&v, a, d.handle); err != nil {
		return 0, fmt.Errorf("read attribute %d of GPU %d: %w", a, d.handle, err)
	}
	return int(v), nil
}

// DeviceInfo describes a GPU to an operator.
type DeviceInfo struct {
	Name            string
	PCIBusID        string // as in /sys/bus/pci/devices, lower case
	Compute         string // compute capability: "9.0"
	Multiprocessors int
	ClockKHz        int
	MemoryBytes     uint64
	L2Bytes         int
	AsyncEngines    int  // copy engines
	HostRegister    bool // host memory can be registered, and read and written in place
	NUMANode        int  // closest NUMA node of the host; -1: unknown
}

// Info reads the properties of the device.
func (d *Device) Info() (DeviceInfo, error) {
	var info DeviceInfo
	var err error
	if info.Name, err = d.text(&d.drv.cuDeviceGetName); err != nil {
		return info, fmt.Errorf("read the name of GPU %d: %w", d.handle, err)
	}
	if info.PCIBusID, err = d.text(&d.drv.cuDeviceGetPCIBusId); err != nil {
		return info, fmt.Errorf("read the PCI address of GPU %d: %w", d.handle, err)
	}
	info.PCIBusID = strings.ToLower(info.PCIBusID)
	if err := d.drv.cuDeviceTotalMem.call(&info.MemoryBytes, d.handle); err != nil {
		return info, fmt.Errorf("read the memory size of GPU %d: %w", d.handle, err)
	}
	var major, minor, register, mapped int
	for _, a := range []struct {
		attribute Attribute
		to        *int
	}{
		{ComputeMajor, &major}, {ComputeMinor, &minor},
		{Multiprocessors, &info.Multiprocessors}, {ClockRate, &info.ClockKHz}, {L2CacheBytes, &info.L2Bytes},
		{AsyncEngines, &info.AsyncEngines}, {HostRegisterSupported, &register}, {CanMapHostMemory, &mapped},
	} {
		if *a.to, err = d.Attribute(a.attribute); err != nil {
			return info, err
		}
	}
	info.Compute = fmt.Sprintf("%d.%d", major, minor)
	info.HostRegister = register != 0 && mapped != 0
	switch info.NUMANode, err = d.Attribute(HostNUMANode); {
	case errors.Is(err, InvalidValue):
		info.NUMANode = -1
	case err != nil:
		return info, err
	}
	return info, nil
}

// text reads a string property of the device.
func (d *Device) text(get *fn3[[]byte, int32, deviceHandle]) (string, error) {
	buf := make([]byte, 256)
	if err := get.call(buf, int32(len(buf)-1), d.handle); err != nil {
		return "", err
	}
	return goString(&buf[0]), nil
}
