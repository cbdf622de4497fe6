#ifndef CT_CALIBRATION_H
#define CT_CALIBRATION_H

#include <stdbool.h>
#include <stdint.h>

#include "cupti_abi.h"

void ct_calibration_start(void); /* before all else */
void ct_calibration_begin(const struct ct_cupti *api, bool callback);
void ct_calibration_repeat(const struct ct_cupti *api);
uint64_t ct_calibration_timestamp(void);
void ct_calibration_leave(const struct ct_cupti *api);
uint64_t ct_calibration_fix(uint64_t time, uint64_t now, bool *bad);
void ct_calibration_kernel(uint64_t start);

#endif
