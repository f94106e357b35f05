package cuda

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// MinVersion is the oldest driver that this package works with: the first with every function
// below that is not optional.
const MinVersion Version = 12000

// Version is a version of the CUDA driver interface as the driver counts:
// 1000 × major + 10 × minor.
type Version int

func (v Version) String() string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// Handles of the driver. Each kind is a type of its own: mixing them does not compile.
type (
	deviceHandle   int32   // CUdevice
	contextHandle  uintptr // CUcontext
	greenHandle    uintptr // CUgreenCtx
	resourceHandle uintptr // CUdevResourceDesc
	moduleHandle   uintptr // CUmodule
	functionHandle uintptr // CUfunction
	streamHandle   uintptr // CUstream
	eventHandle    uintptr // CUevent
	graphHandle    uintptr // CUgraph
	nodeHandle     uintptr // CUgraphNode
	execHandle     uintptr // CUgraphExec
	hostAddress    uintptr // of registered host memory
)

// prototypes holds the functions of the driver. The name of a field is the function's name, its
// type the types of the parameters, and its tag has these keys:
//
//   - args: the names of the parameters, in order;
//   - abi: the version of CUDA whose parameters this package passes. A function whose parameters
//     changed lives on under its old name, so the name alone does not determine what is called.
//     cuGetProcAddress finds the function by name and abi;
//   - suffix: what dlsym needs behind the name for this abi.
//
// Functions newer than MinVersion are optional. A call of one that the driver lacks fails with
// errors.ErrUnsupported.
type prototypes struct {
	cuInit             fn1[uint32]         `abi:"2000" args:"flags"`
	cuDriverGetVersion fn1[*Version]       `abi:"2020" args:"version"`
	cuGetErrorName     fn2[Result, **byte] `abi:"6000" args:"result name"`
	cuGetErrorString   fn2[Result, **byte] `abi:"6000" args:"result text"`

	cuDeviceGetCount     fn1[*int32]                          `abi:"2000" args:"count"`
	cuDeviceGet          fn2[*deviceHandle, int32]            `abi:"2000" args:"device ordinal"`
	cuDeviceGetName      fn3[[]byte, int32, deviceHandle]     `abi:"2000" args:"name size device"`
	cuDeviceGetPCIBusId  fn3[[]byte, int32, deviceHandle]     `abi:"4010" args:"id size device"`
	cuDeviceGetAttribute fn3[*int32, Attribute, deviceHandle] `abi:"2000" args:"value attribute device"`
	cuDeviceTotalMem     fn2[*uint64, deviceHandle]           `abi:"3020" suffix:"_v2" args:"bytes device"`

	cuDeviceGetP2PAttribute fn4[*int32, int32, deviceHandle, deviceHandle] `abi:"8000" args:"value attribute device peer"`
	cuCtxEnablePeerAccess   fn2[contextHandle, uint32]                     `abi:"4000" args:"peer flags"`

	cuDevicePrimaryCtxRetain    fn2[*contextHandle, deviceHandle] `abi:"7000" args:"context device"`
	cuDevicePrimaryCtxRelease   fn1[deviceHandle]                 `abi:"11000" suffix:"_v2" args:"device"`
	cuCtxSetCurrent             fn1[contextHandle]                `abi:"4000" args:"context"`
	cuCtxPushCurrent            fn1[contextHandle]                `abi:"4000" suffix:"_v2" args:"context"`
	cuCtxPopCurrent             fn1[*contextHandle]               `abi:"4000" suffix:"_v2" args:"context"`
	cuCtxSynchronize            fn0                               `abi:"2000"`
	cuCtxGetStreamPriorityRange fn2[*int32, *int32]               `abi:"5050" args:"least greatest"`

	cuModuleLoadDataEx  fn5[*moduleHandle, []byte, uint32, []uint32, []uintptr] `abi:"2010" args:"module image options names values"`
	cuModuleUnload      fn1[moduleHandle]                                       `abi:"2000" args:"module"`
	cuModuleGetFunction fn3[*functionHandle, moduleHandle, string]              `abi:"2000" args:"function module name"`
	cuModuleGetGlobal   fn4[*DevicePtr, *uint64, moduleHandle, string]          `abi:"3020" suffix:"_v2" args:"pointer bytes module name"`

	cuFuncGetAttribute fn3[*int32, FunctionAttribute, functionHandle] `abi:"2020" args:"value attribute function"`
	cuFuncSetAttribute fn3[functionHandle, FunctionAttribute, int32]  `abi:"9000" args:"function attribute value"`
	cuFuncGetParamInfo fn4[functionHandle, uint64, *uint64, *uint64]  `abi:"12040" args:"function index offset size"`

	cuOccupancyMaxActiveBlocksPerMultiprocessor fn4[*int32, functionHandle, int32, uint64] `abi:"6050" args:"blocks function threads shared"`

	cuLaunchKernel fnLaunch `abi:"4000" args:"function gridX gridY gridZ blockX blockY blockZ shared stream params extra"`

	cuMemAlloc                fn2[*DevicePtr, uint64]                           `abi:"3020" suffix:"_v2" args:"pointer bytes"`
	cuMemFree                 fn1[DevicePtr]                                    `abi:"3020" suffix:"_v2" args:"pointer"`
	cuMemGetInfo              fn2[*uint64, *uint64]                             `abi:"3020" suffix:"_v2" args:"free total"`
	cuMemHostRegister         fn3[hostAddress, uint64, uint32]                  `abi:"6050" suffix:"_v2" args:"host bytes flags"`
	cuMemHostUnregister       fn1[hostAddress]                                  `abi:"4000" args:"host"`
	cuMemHostGetDevicePointer fn3[*DevicePtr, hostAddress, uint32]              `abi:"3020" suffix:"_v2" args:"pointer host flags"`
	cuMemcpyHtoD              fn3[DevicePtr, []byte, uint64]                    `abi:"3020" suffix:"_v2" args:"to host bytes"`
	cuMemcpyDtoH              fn3[[]byte, DevicePtr, uint64]                    `abi:"3020" suffix:"_v2" args:"host from bytes"`
	cuMemcpyHtoDAsync         fn4[DevicePtr, hostAddress, uint64, streamHandle] `abi:"3020" suffix:"_v2" args:"to from bytes stream"`
	cuMemcpyDtoHAsync         fn4[hostAddress, DevicePtr, uint64, streamHandle] `abi:"3020" suffix:"_v2" args:"to from bytes stream"`
	cuMemcpyDtoDAsync         fn4[DevicePtr, DevicePtr, uint64, streamHandle]   `abi:"3020" suffix:"_v2" args:"to from bytes stream"`
	cuMemsetD8Async           fn4[DevicePtr, byte, uint64, streamHandle]        `abi:"3020" args:"to value count stream"`
	cuMemsetD32Async          fn4[DevicePtr, uint32, uint64, streamHandle]      `abi:"3020" args:"to value count stream"`

	cuStreamCreateWithPriority fn3[*streamHandle, uint32, int32]      `abi:"5050" args:"stream flags priority"`
	cuStreamDestroy            fn1[streamHandle]                      `abi:"4000" suffix:"_v2" args:"stream"`
	cuStreamQuery              fn1[streamHandle]                      `abi:"2000" args:"stream"`
	cuStreamSynchronize        fn1[streamHandle]                      `abi:"2000" args:"stream"`
	cuStreamWaitEvent          fn3[streamHandle, eventHandle, uint32] `abi:"3020" args:"stream event flags"`
	cuStreamBeginCapture       fn2[streamHandle, uint32]              `abi:"10010" suffix:"_v2" args:"stream mode"`
	cuStreamEndCapture         fn2[streamHandle, *graphHandle]        `abi:"10000" args:"stream graph"`

	cuEventCreate      fn2[*eventHandle, EventFlags]           `abi:"2000" args:"event flags"`
	cuEventDestroy     fn1[eventHandle]                        `abi:"4000" suffix:"_v2" args:"event"`
	cuEventRecord      fn2[eventHandle, streamHandle]          `abi:"2000" args:"event stream"`
	cuEventQuery       fn1[eventHandle]                        `abi:"2000" args:"event"`
	cuEventSynchronize fn1[eventHandle]                        `abi:"2000" args:"event"`
	cuEventElapsedTime fn3[*float32, eventHandle, eventHandle] `abi:"2000" args:"milliseconds start end"`

	cuGraphDestroy                 fn1[graphHandle]                        `abi:"10000" args:"graph"`
	cuGraphGetNodes                fn3[graphHandle, []nodeHandle, *uint64] `abi:"10000" args:"graph nodes count"`
	cuGraphNodeGetType             fn2[nodeHandle, *int32]                 `abi:"10000" args:"node type"`
	cuGraphInstantiateWithFlags    fn3[*execHandle, graphHandle, uint64]   `abi:"11040" args:"exec graph flags"`
	cuGraphExecKernelNodeSetParams fn3[execHandle, nodeHandle, uintptr]    `abi:"12000" suffix:"_v2" args:"exec node params"`
	cuGraphLaunch                  fn2[execHandle, streamHandle]           `abi:"10000" args:"exec stream"`
	cuGraphExecDestroy             fn1[execHandle]                         `abi:"10000" args:"exec"`

	cuDeviceGetDevResource      fn3[deviceHandle, *devResource, uint32]                                 `abi:"12040" args:"device resource type"`
	cuDevSmResourceSplitByCount fn6[[]devResource, *uint32, *devResource, *devResource, uint32, uint32] `abi:"12040" args:"parts count whole remaining flags sms"`
	cuDevResourceGenerateDesc   fn3[*resourceHandle, *devResource, uint32]                              `abi:"12040" args:"description resources count"`
	cuGreenCtxCreate            fn4[*greenHandle, resourceHandle, deviceHandle, uint32]                 `abi:"12040" args:"green description device flags"`
	cuGreenCtxDestroy           fn1[greenHandle]                                                        `abi:"12040" args:"green"`
	cuCtxFromGreenCtx           fn2[*contextHandle, greenHandle]                                        `abi:"12040" args:"context green"`
	cuGreenCtxStreamCreate      fn4[*streamHandle, greenHandle, uint32, int32]                          `abi:"12050" args:"stream green flags priority"`
}

// all yields the functions, with what their tags say.
func (p *prototypes) all(yield func(*function) bool) {
	v := reflect.ValueOf(p).Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		// Every field is a struct that begins with a function.
		f := (*function)(v.Field(i).Addr().UnsafePointer())
		if f.name == "" {
			abi, _ := strconv.Atoi(field.Tag.Get("abi"))
			f.name, f.suffix, f.abi, f.args = field.Name, field.Tag.Get("suffix"), Version(abi), strings.Fields(field.Tag.Get("args"))
		}
		if !yield(f) {
			return
		}
	}
}
