/* What happens next (events.c). */
#pragma once

#include <stdint.h>

typedef struct {
    double time;   /* seconds */
    int64_t order; /* when it was put in */
    int64_t what;
} Event;

typedef struct {
    Event *events;
    int64_t count, room;
    int64_t order; /* how many were ever put in */
} Heap;

void heap_push(Heap *, double time, int64_t what);
Event heap_pop(Heap *);
