package cuda

import "fmt"

// MinVersion is the oldest driver that this package works with: the first with
// every symbol below that is not optional.
const MinVersion Version = 12000

// Version is a version of the CUDA driver interface as the driver counts:
// 1000 × major + 10 × minor.
type Version int

func (v Version) String() string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// symbol is a function of the driver, an index into symbols.
type symbol int

const (
	cuInit symbol = iota
	cuDriverGetVersion
	cuGetErrorName
	cuGetErrorString
	cuDeviceGetCount
	cuDeviceGet
	cuDeviceGetName
	cuDeviceGetPCIBusId
	cuDeviceGetAttribute
	cuDeviceTotalMem
	cuDevicePrimaryCtxRetain
	cuDevicePrimaryCtxRelease
	cuCtxSetCurrent
	cuCtxPushCurrent
	cuCtxPopCurrent
	cuCtxSynchronize
	cuCtxGetStreamPriorityRange
	cuModuleLoadDataEx
	cuModuleUnload
	cuModuleGetFunction
	cuModuleGetGlobal
	cuFuncGetAttribute
	cuFuncSetAttribute
	cuOccupancyMaxActiveBlocksPerMultiprocessor
	cuLaunchKernel
	cuMemAlloc
	cuMemFree
	cuMemGetInfo
	cuMemHostRegister
	cuMemHostUnregister
	cuMemHostGetDevicePointer
	cuMemcpyHtoD
	cuMemcpyDtoH
	cuMemcpyHtoDAsync
	cuMemcpyDtoHAsync
	cuMemcpyDtoDAsync
	cuMemsetD8Async
	cuMemsetD32Async
	cuStreamCreateWithPriority
	cuStreamDestroy
	cuStreamQuery
	cuStreamSynchronize
	cuStreamWaitEvent
	cuStreamBeginCapture
	cuStreamEndCapture
	cuEventCreate
	cuEventDestroy
	cuEventRecord
	cuEventQuery
	cuEventSynchronize
	cuEventElapsedTime
	cuGraphDestroy
	cuGraphGetNodes
	cuGraphNodeGetType
	cuGraphInstantiateWithFlags
	cuGraphExecKernelNodeSetParams
	cuGraphLaunch
	cuGraphExecDestroy
	cuFuncGetParamInfo
	cuDeviceGetDevResource
	cuDevSmResourceSplitByCount
	cuDevResourceGenerateDesc
	cuGreenCtxCreate
	cuGreenCtxDestroy
	cuCtxFromGreenCtx
	symbolCount
)

// symbols says how to find each function and how to speak of its arguments.
//
// A function whose parameters changed lives on under its old name, and the new
// one is exported with a suffix, so a name alone does not say what is called. abi
// is the version of CUDA whose parameters this package passes: cuGetProcAddress
// finds the function by name and abi, dlsym by the name with the suffix.
//
// A driver may lack an optional function; what needs it then fails with
// errors.ErrUnsupported.
var symbols = [symbolCount]struct {
	name     string
	suffix   string
	abi      Version
	args     string // names of the arguments, in order
	optional bool
}{
	cuInit:             {name: "cuInit", abi: 2000, args: "flags"},
	cuDriverGetVersion: {name: "cuDriverGetVersion", abi: 2020, args: "version"},
	cuGetErrorName:     {name: "cuGetErrorName", abi: 6000, args: "result name"},
	cuGetErrorString:   {name: "cuGetErrorString", abi: 6000, args: "result text"},

	cuDeviceGetCount:     {name: "cuDeviceGetCount", abi: 2000, args: "count"},
	cuDeviceGet:          {name: "cuDeviceGet", abi: 2000, args: "device ordinal"},
	cuDeviceGetName:      {name: "cuDeviceGetName", abi: 2000, args: "name size device"},
	cuDeviceGetPCIBusId:  {name: "cuDeviceGetPCIBusId", abi: 4010, args: "id size device"},
	cuDeviceGetAttribute: {name: "cuDeviceGetAttribute", abi: 2000, args: "value attribute device"},
	cuDeviceTotalMem:     {name: "cuDeviceTotalMem", suffix: "_v2", abi: 3020, args: "bytes device"},

	cuDevicePrimaryCtxRetain:    {name: "cuDevicePrimaryCtxRetain", abi: 7000, args: "context device"},
	cuDevicePrimaryCtxRelease:   {name: "cuDevicePrimaryCtxRelease", suffix: "_v2", abi: 11000, args: "device"},
	cuCtxSetCurrent:             {name: "cuCtxSetCurrent", abi: 4000, args: "context"},
	cuCtxPushCurrent:            {name: "cuCtxPushCurrent", suffix: "_v2", abi: 4000, args: "context"},
	cuCtxPopCurrent:             {name: "cuCtxPopCurrent", suffix: "_v2", abi: 4000, args: "context"},
	cuCtxSynchronize:            {name: "cuCtxSynchronize", abi: 2000},
	cuCtxGetStreamPriorityRange: {name: "cuCtxGetStreamPriorityRange", abi: 5050, args: "least greatest"},

	cuModuleLoadDataEx:  {name: "cuModuleLoadDataEx", abi: 2010, args: "module image options names values"},
	cuModuleUnload:      {name: "cuModuleUnload", abi: 2000, args: "module"},
	cuModuleGetFunction: {name: "cuModuleGetFunction", abi: 2000, args: "function module name"},
	cuModuleGetGlobal:   {name: "cuModuleGetGlobal", suffix: "_v2", abi: 3020, args: "pointer bytes module name"},

	cuFuncGetAttribute: {name: "cuFuncGetAttribute", abi: 2020, args: "value attribute function"},
	cuFuncSetAttribute: {name: "cuFuncSetAttribute", abi: 9000, args: "function attribute value"},
	cuOccupancyMaxActiveBlocksPerMultiprocessor: {name: "cuOccupancyMaxActiveBlocksPerMultiprocessor", abi: 6050,
		args: "blocks function threads shared"},
	cuLaunchKernel: {name: "cuLaunchKernel", abi: 4000,
		args: "function gridX gridY gridZ blockX blockY blockZ shared stream params extra"},

	cuMemAlloc:                {name: "cuMemAlloc", suffix: "_v2", abi: 3020, args: "pointer bytes"},
	cuMemFree:                 {name: "cuMemFree", suffix: "_v2", abi: 3020, args: "pointer"},
	cuMemGetInfo:              {name: "cuMemGetInfo", suffix: "_v2", abi: 3020, args: "free total"},
	cuMemHostRegister:         {name: "cuMemHostRegister", suffix: "_v2", abi: 6050, args: "host bytes flags"},
	cuMemHostUnregister:       {name: "cuMemHostUnregister", abi: 4000, args: "host"},
	cuMemHostGetDevicePointer: {name: "cuMemHostGetDevicePointer", suffix: "_v2", abi: 3020, args: "pointer host flags"},
	cuMemcpyHtoD:              {name: "cuMemcpyHtoD", suffix: "_v2", abi: 3020, args: "to host bytes"},
	cuMemcpyDtoH:              {name: "cuMemcpyDtoH", suffix: "_v2", abi: 3020, args: "host from bytes"},
	cuMemcpyHtoDAsync:         {name: "cuMemcpyHtoDAsync", suffix: "_v2", abi: 3020, args: "to from bytes stream"},
	cuMemcpyDtoHAsync:         {name: "cuMemcpyDtoHAsync", suffix: "_v2", abi: 3020, args: "to from bytes stream"},
	cuMemcpyDtoDAsync:         {name: "cuMemcpyDtoDAsync", suffix: "_v2", abi: 3020, args: "to from bytes stream"},
	cuMemsetD8Async:           {name: "cuMemsetD8Async", abi: 3020, args: "to value count stream"},
	cuMemsetD32Async:          {name: "cuMemsetD32Async", abi: 3020, args: "to value count stream"},

	cuStreamCreateWithPriority: {name: "cuStreamCreateWithPriority", abi: 5050, args: "stream flags priority"},
	cuStreamDestroy:            {name: "cuStreamDestroy", suffix: "_v2", abi: 4000, args: "stream"},
	cuStreamQuery:              {name: "cuStreamQuery", abi: 2000, args: "stream"},
	cuStreamSynchronize:        {name: "cuStreamSynchronize", abi: 2000, args: "stream"},
	cuStreamWaitEvent:          {name: "cuStreamWaitEvent", abi: 3020, args: "stream event flags"},
	cuStreamBeginCapture:       {name: "cuStreamBeginCapture", suffix: "_v2", abi: 10010, args: "stream mode"},
	cuStreamEndCapture:         {name: "cuStreamEndCapture", abi: 10000, args: "stream graph"},

	cuEventCreate:      {name: "cuEventCreate", abi: 2000, args: "event flags"},
	cuEventDestroy:     {name: "cuEventDestroy", suffix: "_v2", abi: 4000, args: "event"},
	cuEventRecord:      {name: "cuEventRecord", abi: 2000, args: "event stream"},
	cuEventQuery:       {name: "cuEventQuery", abi: 2000, args: "event"},
	cuEventSynchronize: {name: "cuEventSynchronize", abi: 2000, args: "event"},
	cuEventElapsedTime: {name: "cuEventElapsedTime", abi: 2000, args: "milliseconds start end"},

	cuGraphDestroy:                 {name: "cuGraphDestroy", abi: 10000, args: "graph"},
	cuGraphGetNodes:                {name: "cuGraphGetNodes", abi: 10000, args: "graph nodes count"},
	cuGraphNodeGetType:             {name: "cuGraphNodeGetType", abi: 10000, args: "node type"},
	cuGraphInstantiateWithFlags:    {name: "cuGraphInstantiateWithFlags", abi: 11040, args: "exec graph flags"},
	cuGraphExecKernelNodeSetParams: {name: "cuGraphExecKernelNodeSetParams", suffix: "_v2", abi: 12000, args: "exec node params"},
	cuGraphLaunch:                  {name: "cuGraphLaunch", abi: 10000, args: "exec stream"},
	cuGraphExecDestroy:             {name: "cuGraphExecDestroy", abi: 10000, args: "exec"},

	cuFuncGetParamInfo: {name: "cuFuncGetParamInfo", abi: 12040, args: "function index offset size", optional: true},

	cuDeviceGetDevResource:      {name: "cuDeviceGetDevResource", abi: 12040, args: "device resource type", optional: true},
	cuDevSmResourceSplitByCount: {name: "cuDevSmResourceSplitByCount", abi: 12040, args: "parts count whole rest flags sms", optional: true},
	cuDevResourceGenerateDesc:   {name: "cuDevResourceGenerateDesc", abi: 12040, args: "description resources count", optional: true},
	cuGreenCtxCreate:            {name: "cuGreenCtxCreate", abi: 12040, args: "green description device flags", optional: true},
	cuGreenCtxDestroy:           {name: "cuGreenCtxDestroy", abi: 12040, args: "green", optional: true},
	cuCtxFromGreenCtx:           {name: "cuCtxFromGreenCtx", abi: 12040, args: "context green", optional: true},
}
