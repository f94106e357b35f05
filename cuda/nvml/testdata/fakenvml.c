/* Fake NVML with two GPUs at 0000:1a:00.0 and 0000:1b:00.0, as package cuda's fake driver has them. The
 * first draws 100 W and is 10 % busy, the second has twice that. FAULT "energy not supported": the second
 * has no energy counter; "driver not loaded": nvmlInit_v2 fails. */
#include <stdint.h>
#include <string.h>
#include <time.h>

typedef int nvmlReturn;
typedef struct device *nvmlDevice;

static struct device {
	unsigned number;
} devices[] = {{1}, {2}};

nvmlReturn nvmlInit_v2(void) { return strcmp(FAULT, "driver not loaded") ? 0 : 9; }
nvmlReturn nvmlShutdown(void) { return 0; }

const char *nvmlErrorString(nvmlReturn r)
{
	switch (r) {
	case 3: return "Not Supported";
	case 6: return "Not Found";
	case 9: return "Driver Not Loaded";
	}
	return "Unknown Error";
}

nvmlReturn nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice *d)
{
	int second = !strcmp(bus_id, "0000:1b:00.0");

	if (!second && strcmp(bus_id, "0000:1a:00.0"))
		return 6;
	*d = &devices[second];
	return 0;
}

nvmlReturn nvmlDeviceGetPowerUsage(nvmlDevice d, unsigned *milliwatts) { *milliwatts = 100000 * d->number; return 0; }

struct utilization {
	unsigned gpu, memory;
};
nvmlReturn nvmlDeviceGetUtilizationRates(nvmlDevice d, struct utilization *u) { *u = (struct utilization){10 * d->number, 99}; return 0; }

nvmlReturn nvmlDeviceGetTotalEnergyConsumption(nvmlDevice d, unsigned long long *millijoules)
{
	struct timespec t;

	if (!strcmp(FAULT, "energy not supported") && d->number == 2)
		return 3;
	clock_gettime(CLOCK_MONOTONIC, &t);
	*millijoules = (1ull << 32) + 100000ull * d->number * (uint64_t)t.tv_sec + d->number * (uint64_t)t.tv_nsec / 10000;
	return 0;
}
