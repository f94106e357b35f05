package nvml_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/warproute/warproute/cuda/nvml"
)

// A host without NVML has no values, which is no fault.
func Example() {
	l, err := nvml.Open("libabsent.so.1") // "" is the installed library
	if errors.Is(err, nvml.ErrNoLibrary) {
		fmt.Println("power: unknown")
		return
	}
	check(err)
	defer l.Close()
	d, err := l.Device("0000:1a:00.0") // DeviceInfo.PCIBusID of package cuda
	check(err)
	milliwatts, err := d.Power()
	check(err)
	fmt.Printf("power: %.1f W\n", float64(milliwatts)/1e3)
	// Output: power: unknown
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
