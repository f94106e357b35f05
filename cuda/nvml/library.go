//go:build !nogpu

package nvml

import (
	"errors"
	"runtime"

	"github.com/ebitengine/purego"
)

// load loads the first library that exists, and finds its functions.
func load(names []string, f *functions) error {
	runtime.LockOSThread() // dlerror is per thread
	defer runtime.UnlockOSThread()
	var tried []error
	for _, name := range names {
		lib, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err != nil {
			tried = append(tried, err)
			continue
		}
		for name, to := range map[string]any{
			"nvmlInit_v2":                         &f.nvmlInit_v2,
			"nvmlShutdown":                        &f.nvmlShutdown,
			"nvmlErrorString":                     &f.nvmlErrorString,
			"nvmlDeviceGetHandleByPciBusId_v2":    &f.nvmlDeviceGetHandleByPciBusId_v2,
			"nvmlDeviceGetPowerUsage":             &f.nvmlDeviceGetPowerUsage,
			"nvmlDeviceGetTotalEnergyConsumption": &f.nvmlDeviceGetTotalEnergyConsumption,
			"nvmlDeviceGetUtilizationRates":       &f.nvmlDeviceGetUtilizationRates,
		} {
			if address, err := purego.Dlsym(lib, name); err == nil {
				purego.RegisterFunc(to, address)
			}
		}
		return nil
	}
	return errors.Join(tried...)
}
