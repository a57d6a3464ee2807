/* A window for aggregators beside the one for links (A2TP: Li et al., EuroSys '23; our reading of it).

   ATP's window follows queues. Where aggregators are scarce, chunks collide although no queue is deep, and each of them comes to the
   server once for every worker. A2TP tells the two apart: this window is cut by the share of a window's chunks that collided, as DCTCP
   cuts its own by the share that was marked (RFC 8257), and grows by a chunk a window. As many chunks are under way as the
   smaller window allows. The paper's weights by how far a job's workers are apart are left out: workers of a job start together here,
   except for stragglers. */
#include "inside.h"

#define GAIN (1.0 / 16) /* of a window's share in the mean, as in RFC 8257 */

void aggregators_init(AggregatorWindow *w, double largest) { *w = (AggregatorWindow){.size = largest, .largest = largest}; }

/* A result has come of the packet with this number, whose chunk collided or not; `following` is the number of the next packet. */
void aggregators_settled(AggregatorWindow *w, bool collided, int64_t number, int64_t following) {
    w->results++;
    w->collisions += collided;
    if (number < w->until)
        return;
    w->share += GAIN * ((double)w->collisions / w->results - w->share);
    double kept = w->collisions ? w->size * (1 - w->share / 2) : w->size;
    w->size = fmin(fmax(kept + 1, SMALLEST), w->largest);
    w->results = w->collisions = 0;
    w->until = following;
}
