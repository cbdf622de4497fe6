/* CBID_name for every function of the two tables. */
#ifndef SIM_CBID_H
#define SIM_CBID_H

enum sim_driver_cbid {
#define D(name, id) CBID_##name = id,
#include "driver.def"
#undef D
};

enum sim_runtime_cbid {
#define R(name, id, version) CBID_##name = id,
#include "runtime.def"
#undef R
};

#endif
