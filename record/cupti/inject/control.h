#ifndef CT_CONTROL_H
#define CT_CONTROL_H

#include <stdbool.h>

void ct_control_run(void);
void ct_detach(bool flushed);

#endif
