/* A worker's congestion window: additive increase, halved on a mark, in the paper's way also on a loss.

   It starts open, and is halved at most once for the chunks of one window. Where switches mark before they drop, a loss without a
   mark says nothing of queues. In the paper's way a chunk of which one worker's packet has found its aggregator taken and another's
   has not looks lost too, until its result says so. The window is restored then, as TCP does after a timeout that proves needless
   (RFC 4015). */
#include "inside.h"

void window_init(CongestionWindow *w, double largest, int32_t control) {
    *w = (CongestionWindow){.size = largest, .largest = largest, .control = control, .suspect = -1};
    aggregators_init(&w->aggregators, largest);
}

/* Whether the window was cut: not if this packet was sent before the last cut. */
static bool halve(CongestionWindow *w, int64_t number, int64_t following) {
    if (number < w->recover)
        return false;
    w->size = fmax(w->size / 2, fmin(SMALLEST, w->largest));
    w->recover = following;
    return true;
}

/* How many chunks may be under way. */
double window_room(const CongestionWindow *w) { return fmin(w->size, w->aggregators.size); }

/* A result of the packet with this number, whose chunk had an aggregator or not. */
void window_result(CongestionWindow *w, bool collided, int64_t number, int64_t following) {
    if (w->control == BY_MARKS_AND_COLLISIONS)
        aggregators_settled(&w->aggregators, collided, number, following);
}

/* So many results have come: one chunk more for every whole window of them. */
void window_settled(CongestionWindow *w, int64_t chunks) { w->size = fmin(w->size + chunks / w->size, w->largest); }

/* A result is marked, of the packet with this number; `following` is that of the next packet. */
void window_congested(CongestionWindow *w, int64_t number, int64_t following) {
    if (w->control != BY_NOTHING)
        halve(w, number, following);
}

/* `chunk`, whose packet has this number, seems to be lost. */
void window_lost(CongestionWindow *w, int64_t chunk, int64_t number, int64_t following) {
    double before = w->size;
    if (w->control == BY_MARKS_AND_LOSSES && halve(w, number, following)) {
        w->suspect = chunk;
        w->before = before;
    }
}

/* `chunk` was not lost: a part of it had found its aggregator taken. */
void window_collided(CongestionWindow *w, int64_t chunk) {
    if (chunk != w->suspect)
        return;
    w->size = fmax(w->size, w->before);
    w->suspect = -1;
}
