/* How urgent a worker's next chunk is to ESA's switches (p4/include/esa/preemption.p4): the less its job has left to sum, the more.

   The one that is nearest to its end goes first, as in shortest remaining time first, so that the jobs end sooner on average. Layers in
   front, whose gradients come last in the backward pass, are more urgent than those behind. The paper's formula has the time that
   remains and the layer, too; ours is a reading of it, in chunks. With 65,535
   chunks and more left all are alike. */
#include "inside.h"

#define MOST_URGENT UINT16_MAX

uint16_t atp_priority(const Stream *s) {
    int64_t left = 0;
    for (int64_t n = 0; n < s->transfers_count; n++)
        left += s->transfers[n].remaining;
    return left < MOST_URGENT ? MOST_URGENT / (left + 1) : 1;
}
