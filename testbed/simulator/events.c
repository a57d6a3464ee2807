/* What happens next: a heap of events, four below each, in order of time, and of when they were put in where times are equal. */
#include "events.h"

#include "../../hosts/stream/inside.h"

static bool before(const Event *a, const Event *b) { return a->time < b->time || (a->time == b->time && a->order < b->order); }

void heap_push(Heap *h, double time, int64_t what) {
    GROW(h->events, h->room, h->count + 1);
    Event new = {time, h->order++, what};
    int64_t at = h->count++;
    for (; at > 0 && before(&new, &h->events[(at - 1) / 4]); at = (at - 1) / 4)
        h->events[at] = h->events[(at - 1) / 4];
    h->events[at] = new;
}

/* Take the first one out. */
Event heap_pop(Heap *h) {
    Event first = h->events[0], last = h->events[--h->count];
    int64_t at = 0, child;
    while ((child = 4 * at + 1) < h->count) {
        int64_t end = child + 4 < h->count ? child + 4 : h->count;
        for (int64_t other = child + 1; other < end; other++)
            if (before(&h->events[other], &h->events[child]))
                child = other;
        if (before(&last, &h->events[child]))
            break;
        h->events[at] = h->events[child];
        at = child;
    }
    h->events[at] = last;
    return first;
}
