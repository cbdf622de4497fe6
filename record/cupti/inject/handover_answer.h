#ifndef CT_HANDOVER_ANSWER_H
#define CT_HANDOVER_ANSWER_H

void ct_handover_answer(void);

#endif
