package cuda

import (
	"errors"
	"fmt"
	"strings"
)

// Device is a GPU. Its methods may be called from any goroutine.
type Device struct {
	drv    *Driver
	handle int32
}

// Attribute is a property of a device that is a number.
type Attribute int32

// The attributes that DeviceInfo is made of, and those that size a launch.
const (
	MaxThreadsPerBlock          Attribute = 1
	MaxSharedPerBlock           Attribute = 8 // bytes; see MaxDynamicShared for more
	WarpSize                    Attribute = 10
	ClockRate                   Attribute = 13 // kHz
	Multiprocessors             Attribute = 16
	CanMapHostMemory            Attribute = 19
	MemoryClockRate             Attribute = 36 // kHz
	MemoryBusWidth              Attribute = 37 // bits
	L2CacheBytes                Attribute = 38
	MaxThreadsPerMultiprocessor Attribute = 39
	AsyncEngines                Attribute = 40
	UnifiedAddressing           Attribute = 41
	ComputeMajor                Attribute = 75
	ComputeMinor                Attribute = 76
	SharedPerMultiprocessor     Attribute = 81 // bytes
	MaxSharedPerBlockOptin      Attribute = 97 // bytes, the limit of MaxDynamicShared
	HostRegisterSupported       Attribute = 99
	HostNUMANode                Attribute = 134 // -1: the host has no nodes
)

// Attribute returns one property of the device. A driver that is older than the
// attribute answers InvalidValue.
func (d *Device) Attribute(a Attribute) (int, error) {
	var v int32
	if err := d.drv.call(cuDeviceGetAttribute, &v, a, d.handle); err != nil {
		return 0, fmt.Errorf("read attribute %d of GPU %d: %w", a, d.handle, err)
	}
	return int(v), nil
}

// DeviceInfo is what a person wants to know of a GPU.
type DeviceInfo struct {
	Name            string
	PCIBusID        string // as in /sys/bus/pci/devices, lower case
	Compute         string // compute capability: "9.0"
	Multiprocessors int
	ClockKHz        int
	MemoryBytes     uint64
	L2Bytes         int
	AsyncEngines    int  // copies that can run beside kernels
	HostRegister    bool // whether memory of the host can be registered, and read and written in place
	NUMANode        int  // of the host, nearest to the GPU; -1: none, or not known
}

// Info reads what DeviceInfo holds.
func (d *Device) Info() (DeviceInfo, error) {
	var info DeviceInfo
	var err error
	if info.Name, err = d.text(cuDeviceGetName); err != nil {
		return info, fmt.Errorf("read the name of GPU %d: %w", d.handle, err)
	}
	if info.PCIBusID, err = d.text(cuDeviceGetPCIBusId); err != nil {
		return info, fmt.Errorf("read the PCI address of GPU %d: %w", d.handle, err)
	}
	info.PCIBusID = strings.ToLower(info.PCIBusID)
	if err := d.drv.call(cuDeviceTotalMem, &info.MemoryBytes, d.handle); err != nil {
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

// text reads a property of the device that is a string.
func (d *Device) text(s symbol) (string, error) {
	buf := make([]byte, 256)
	if err := d.drv.call(s, buf, len(buf)-1, d.handle); err != nil {
		return "", err
	}
	return goString(&buf[0]), nil
}
