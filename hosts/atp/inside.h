/* What the sources of ATP share, and Python does not see. */
#pragma once

#include "../stream/inside.h"
#include "core.h"
#include "wire.h"

#define NO_SEQUENCE 0xFFFFFFFFu
#define SMALLEST 4.0 /* chunks, of a window: one more than the results that show a gap */

static inline AtpHeader *header(const Datagrams *d, int64_t row) { return (AtpHeader *)datagram(d, row); }
static inline uint32_t *vector(const Datagrams *d, int64_t row) { return (uint32_t *)(datagram(d, row) + sizeof(AtpHeader)); }

static inline AtpBare *bare_at(const Datagrams *d, int64_t row) { return (AtpBare *)datagram(d, row); }

/* The chunk nearest to `base` with this sequence number. */
static inline int64_t nearest(int64_t sequence, int64_t base) {
    int64_t behind = modulo(sequence - base, SEQUENCES);
    return base + behind - (behind >= SEQUENCES / 2 ? SEQUENCES : 0);
}

static inline int64_t chunk_near(const AtpHeader *packet, int64_t base) { return nearest(big(packet->owner), base); }

/* Whose chunk it is. */
static inline uint32_t owner_of(int32_t job, int64_t chunk) { return big((uint32_t)job << 24 | chunk % SEQUENCES); }
static inline int32_t job_of(const AtpHeader *packet) { return big(packet->owner) >> 24; }

/* allocation.c */
int64_t following(int64_t job, int64_t place, int64_t *attempt, int64_t taken, const int64_t *held, int64_t aggregators);

/* priority.c */
uint16_t atp_priority(const Stream *);

/* succession.c */
bool names(const AtpHeader *result, int field, int64_t oldest, int64_t *chunk);
void name_before(AtpHeader *result, uint32_t *before);
