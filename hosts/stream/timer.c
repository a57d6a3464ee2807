/* The retransmission timeout: RFC 6298's estimator over batches of samples, with exponential back-off per chunk.

   Karn's rule is the caller's: samples come from chunks that no worker sent again. A timeout that is too short would then never let
   a sample through; so when a result arrives twice, which shows that sending again, or asking, was needless, the caller may have
   the estimate doubled until the next sample. A chunk's own back-off ends at four times the timeout: at most one window is ever
   under way, so what is sent again cannot flood a link, and a burst that lasts for some packets should not cost seconds. */
#include "core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The greater of the two in the middle of an even number of values, which are put in order. */
static double upper_median(double *values, int count) {
    if (count > 1)
        qsort(values, count, sizeof *values, ascending);
    return values[count / 2];
}

/* Set the timeouts of chunks that were sent once, twice and so on.

   Where that is to send it again, two round trips at least: where the window fills a slow link the round trip is all queue and
   hardly varies, and what others send again, up to a window, doubles it. */
static void set(Timer *t) {
    double margin = fmax(4 * t->variation, t->margin * t->srtt);
    double estimate = t->srtt == 0 ? t->initial : fmax(t->srtt + margin, t->shortest);
    double once = fmin(estimate * (double)(1 << t->doublings), t->longest);
    for (int tries = 0; tries <= MOST_BACKOFF; tries++)
        t->timeouts[tries] = fmin(once * (1 << tries), t->longest);
}

void timer_init(Timer *t, double initial, double shortest, double longest, double margin, double most_growth) {
    *t = (Timer){.initial = initial, .shortest = shortest, .longest = longest, .margin = margin, .most_growth = most_growth};
    set(t);
}

/* Take in a batch of round-trip times: RFC 6298 section 2, on the batch's median and weighted by its size.

   Round trips beyond some multiple of the shortest of late count as that: a worker that waits for one chunk sends the next one of
   the slot late, so at high loss most round trips contain somebody's timeout, marked or not. */
void timer_sample(Timer *t, const double *round_trips, int count) {
    if (!count)
        return;
    t->doublings = 0;
    double values[count], shortest = INFINITY;
    memcpy(values, round_trips, sizeof values);
    double median = upper_median(values, count);
    t->recent[t->batches++ % REMEMBERED] = median;
    for (int i = 0; i < REMEMBERED && i < t->batches; i++)
        shortest = fmin(shortest, t->recent[i]);
    double believable = t->most_growth * shortest, r = fmin(median, believable);
    if (t->srtt == 0) {
        t->srtt = r;
        t->variation = r / 2;
    } else if (r < t->srtt) { /* down at once: what is long contains somebody's waiting, what is short does not */
        double weight = 1 - pow(1 - 1. / 4, count);
        t->variation += (fmin(fmin(t->srtt - r, t->variation), r) - t->variation) * weight;
        t->srtt += (r - t->srtt) * weight;
    } else {
        for (int i = 0; i < count; i++)
            values[i] = fabs(fmin(round_trips[i], believable) - t->srtt);
        double distance = upper_median(values, count);
        t->variation += (distance - t->variation) * (1 - pow(1 - 1. / 16, count));
        t->srtt += (r - t->srtt) * (1 - pow(1 - 1. / 32, count));
    }
    set(t);
}

/* A result arrived twice; many within one timeout count once. */
void timer_needless(Timer *t, double now) {
    if (now - t->doubled_at < t->timeouts[0])
        return;
    if (t->doublings < MOST_BACKOFF)
        t->doublings++;
    t->doubled_at = now;
    set(t);
}
