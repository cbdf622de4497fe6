#ifndef CT_CONTROL_H
#define CT_CONTROL_H

void ct_control_run(void);

#endif
