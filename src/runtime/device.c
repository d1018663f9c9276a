// device.c -- the table of drivers.
#include "runtime/device.h"

#include "runtime/cuda/cuda.h"
#include "runtime/opencl/opencl.h"

const DeviceDriver *const device_drivers[] = {&device_cuda, &opencl_driver, NULL};

const DeviceDriver *device_driver(const char *name) {
  for (const DeviceDriver *const *d = device_drivers; *d; d++)
    if (!strcmp((*d)->name, name)) return *d;
  return NULL;
}
