/* DCQCN's reaction point (Zhu et al., SIGCOMM '15, section 3.3, figure 7): the rate falls when the other end tells of marks, and comes
   back in halves, then by steps, then by larger ones.

   The paper's intervals are for round trips of some 10 µs on links of 40 Gbit/s: 50 µs between two notifications, five round trips.
   Emulated links have round trips of a few packets, and transfers of hundreds: here all intervals are in units that the link's rate
   gives, and the gain and steps are larger by as much as intervals are fewer. */
#include "inside.h"

#define GAIN (1.0 / 16)      /* of alpha */
#define RECOVERIES 5         /* times that the rate comes back by half of the way, before its target rises */
#define STEP (1.0 / 40)      /* of the link's rate, by which the target rises */
#define LARGE_STEP (1.0 / 8)
#define SLOWEST (1.0 / 128)  /* of the link's rate */
#define SOONEST 1.1          /* units until alpha falls, and the rate rises: a little more than between notifications (55 and 50 µs) */
#define AFTER_BYTES 256      /* packets of full size after which it rises, too */

void dcqcn_init(DcqcnRate *r, const RcSettings *s, double now) {
    *r = (DcqcnRate){.current = s->rate, .target = s->rate, .alpha = 1, .weakens_at = NEVER_DUE, .grows_at = NEVER_DUE, .free_at = now};
}

/* A notification has come. */
void dcqcn_notified(DcqcnRate *r, const RcSettings *s, double now) {
    r->target = r->current;
    r->current = fmax(r->current * (1 - r->alpha / 2), SLOWEST * s->rate);
    r->alpha = (1 - GAIN) * r->alpha + GAIN;
    r->weakens_at = r->grows_at = now + SOONEST * s->unit;
    r->bytes = r->by_time = r->by_bytes = 0;
}

static void grow(DcqcnRate *r, const RcSettings *s) {
    int32_t fewer = r->by_time < r->by_bytes ? r->by_time : r->by_bytes;
    int32_t more = r->by_time > r->by_bytes ? r->by_time : r->by_bytes;
    if (more > RECOVERIES)
        r->target += (fewer > RECOVERIES ? LARGE_STEP : STEP) * s->rate;
    r->target = fmin(r->target, s->rate);
    r->current = (r->target + r->current) / 2;
}

static void advance(DcqcnRate *r, const RcSettings *s, double now) {
    for (; r->weakens_at <= now && r->alpha > 1e-3; r->weakens_at += SOONEST * s->unit)
        r->alpha *= 1 - GAIN;
    for (; r->grows_at <= now && r->current <= 0.999 * s->rate; r->grows_at += SOONEST * s->unit) {
        r->by_time++;
        grow(r, s);
    }
    if (r->current > 0.999 * s->rate) {
        r->current = r->target = s->rate;
        r->grows_at = NEVER_DUE;
    }
}

/* A packet of so many bytes on the wire leaves. */
void dcqcn_sent(DcqcnRate *r, const RcSettings *s, int32_t bytes, double now) {
    advance(r, s, now);
    if (r->current >= s->rate) {
        r->free_at = now; /* the link itself is not faster */
        return;
    }
    r->bytes += bytes;
    if (r->bytes > (int64_t)AFTER_BYTES * s->payload) {
        r->bytes = 0;
        r->by_bytes++;
        grow(r, s);
    }
    r->free_at = fmax(r->free_at, now) + bytes / r->current;
}
