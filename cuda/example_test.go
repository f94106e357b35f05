package cuda_test

import (
	"errors"
	"fmt"
	"log"
	"runtime"

	"github.com/warproute/warproute/cuda"
)

const doublePTX = `.version 7.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 at) {
	.reg .u32 %v;
	.reg .u64 %p;
	ld.param.u64 %p, [at];
	ld.global.u32 %v, [%p];
	add.u32 %v, %v, %v;
	st.global.u32 [%p], %v;
	ret;
}`

// Example runs a kernel that doubles a number in device memory. It needs a GPU.
func Example() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	driver, err := cuda.Open("")
	check(err)
	devices, err := driver.FirstN(1)
	check(err)
	ctx, err := devices[0].Retain()
	check(err)
	defer ctx.Close()
	check(ctx.Bind())

	module, err := ctx.Load([]byte(doublePTX))
	check(err)
	defer module.Close()
	kernel, err := module.Function("twice")
	check(err)
	memory, err := ctx.Alloc(4)
	check(err)
	defer memory.Close()
	check(memory.Write(0, []byte{21, 0, 0, 0}))

	launch, err := cuda.NewLaunch(kernel, &struct{ At cuda.DevicePtr }{memory.Ptr()})
	check(err)
	launch.Grid, launch.Block = cuda.Dim{X: 1}, cuda.Dim{X: 1}
	stream, err := ctx.NewStream(0)
	check(err)
	defer stream.Close()
	check(launch.Enqueue(stream))
	check(stream.Synchronize())

	result := make([]byte, 4)
	check(memory.Read(0, result))
	fmt.Println(result[0]) // 42
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleOpen() {
	_, err := cuda.Open("/nonexistent/libcuda.so.1")
	fmt.Println(errors.Is(err, cuda.ErrNoDriver))
	// Output: true
}

func ExampleSticky() {
	fault := fmt.Errorf("synchronize: %w", cuda.IllegalAddress)
	fmt.Println(cuda.Sticky(fault), cuda.Sticky(cuda.OutOfMemory))
	// Output: true false
}
