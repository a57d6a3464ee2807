/* Max–min fair rates (flows.c). */
#pragma once

#include <stdint.h>

typedef struct {
    double capacity;
    double left, loaded; /* on the way */
    int64_t users;
    uint8_t full;
} SharedLink;

int64_t flows_share(SharedLink *, int64_t links, int64_t flows, const double *weights, const int64_t *first, const int64_t *crossed,
                    double *rates);
