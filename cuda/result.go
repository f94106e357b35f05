package cuda

// Result is the result of a driver call (CUresult). It is an error, for errors.Is.
type Result int32

// Results that callers compare with, or that have a hint.
const (
	success Result = 0

	InvalidValue        Result = 1
	OutOfMemory         Result = 2
	NotInitialized      Result = 3
	Deinitialized       Result = 4
	StubLibrary         Result = 34
	DeviceUnavailable   Result = 46
	NoDevice            Result = 100
	InvalidImage        Result = 200
	InvalidContext      Result = 201
	NoBinaryForGPU      Result = 209
	ECCUncorrectable    Result = 214
	InvalidPTX          Result = 218
	NVLinkUncorrectable Result = 220
	UnsupportedPTX      Result = 222
	OperatingSystem     Result = 304
	NotFound            Result = 500
	NotReady            Result = 600
	IllegalAddress      Result = 700
	OutOfResources      Result = 701
	LaunchTimeout       Result = 702
	PeerAlreadyEnabled  Result = 704
	ContextDestroyed    Result = 709
	Assert              Result = 710
	AlreadyRegistered   Result = 712
	NotRegistered       Result = 713
	HardwareStackError  Result = 714
	IllegalInstruction  Result = 715
	MisalignedAddress   Result = 716
	InvalidAddressSpace Result = 717
	InvalidPC           Result = 718
	LaunchFailed        Result = 719
	NotPermitted        Result = 800
	NotSupported        Result = 801
	SystemNotReady      Result = 802
	DriverMismatch      Result = 803
	UnsupportedOnDevice Result = 804
	InvalidResources    Result = 915 // a Split that the device or MPS does not permit
	UnknownError        Result = 999
)

// hints are remedies for results.
var hints = map[Result]string{
	OutOfMemory:         "free memory of the device or ask for less; `nvidia-smi` shows who holds it",
	StubLibrary:         "this libcuda.so is the toolkit's, for linking only: put the driver's directory before it in the library path",
	DeviceUnavailable:   "another process has the GPU to itself; see its compute mode: `nvidia-smi -q -d COMPUTE`",
	NoDevice:            "no GPU is visible: see `nvidia-smi` and CUDA_VISIBLE_DEVICES; a container needs to be given GPUs (--gpus all)",
	InvalidContext:      "the thread has no current context: call Context.Bind on a locked thread, or wrap the call in Context.Do",
	NoBinaryForGPU:      "the code requires a newer GPU",
	ECCUncorrectable:    "the GPU's memory has failed: " + lost + "; if it returns, reset or replace the GPU (`nvidia-smi -q -d ECC`)",
	NVLinkUncorrectable: "a link between GPUs has failed: " + lost,
	UnsupportedPTX:      "the driver is older than the compiler that wrote this PTX: update the driver",
	IllegalAddress:      "a kernel used an illegal address: " + lost + "; compute-sanitizer finds the instruction",
	OutOfResources:      "the block needs more registers or shared memory than a multiprocessor has: launch fewer threads",
	LaunchTimeout:       "a kernel exceeded the driver's time limit: " + lost,
	ContextDestroyed:    lost,
	Assert:              "an assertion in a kernel failed: " + lost,
	AlreadyRegistered:   "part of the memory is already registered: register a mapping once, whole",
	HardwareStackError:  "a kernel's stack is damaged: " + lost,
	IllegalInstruction:  "a kernel ran an illegal instruction: " + lost,
	MisalignedAddress:   "a kernel used an address that is not a multiple of the access's size: " + lost + "; compute-sanitizer finds the instruction",
	InvalidAddressSpace: "a kernel used an address of another address space: " + lost,
	InvalidPC:           "a kernel jumped out of its code: " + lost,
	LaunchFailed:        "a kernel failed: " + lost + "; compute-sanitizer finds the instruction",
	SystemNotReady:      "the driver's services are not up: start nvidia-fabricmanager or nvidia-persistenced",
	DriverMismatch:      "libcuda and the kernel module are of different versions: reboot, or reload the module",
	InvalidResources:    "the driver cannot split a GPU that MPS limits: unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
	UnsupportedOnDevice: "the compatibility package of CUDA does not work with this GPU: install the driver that belongs to this CUDA",
}

// lost is the hint for every sticky result.
const lost = "this process cannot use CUDA any more: restart it"

// sticky has the results after which every call fails, in all contexts.
var sticky = map[Result]bool{
	ECCUncorrectable: true, NVLinkUncorrectable: true, IllegalAddress: true, LaunchTimeout: true, ContextDestroyed: true,
	Assert: true, HardwareStackError: true, IllegalInstruction: true, MisalignedAddress: true, InvalidAddressSpace: true,
	InvalidPC: true, LaunchFailed: true,
}
