/* Fake NVML without an energy counter. */
#define nvmlDeviceGetTotalEnergyConsumption absent
#include "fakenvml.c"
