/* What the sources of cores share, and Python does not see. */
#pragma once

#include "core.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "vectors are swapped, as on all that torch has wheels for");

/* Whether a sum of tags is of tensors that differ. Tags have 24 bits, so those of 256 workers cannot cancel. */
static inline bool disputed(const Stream *s, const Transfer *t, uint32_t sum) { return sum != s->workers * t->tag; }

#define PART_BYTES 4 /* what tells the owner of a chunk, behind its vector or tag */
#define LARGEST_INTEGER 2147483647.0 /* of int32 */
#define LONGEST_TIMEOUT 1.0 /* seconds */

static inline uint32_t big(uint32_t word) { return __builtin_bswap32(word); } /* from or to the network's byte order */
static inline uint16_t big_short(uint16_t word) { return __builtin_bswap16(word); }

static inline uint8_t *datagram(const Datagrams *d, int64_t row) { return d->first + row * d->stride; }

/* Whole words between memory and the wire, either way. */
static inline void swap(const uint32_t *from, uint32_t *to, int64_t count) {
    for (int64_t e = 0; e < count; e++)
        to[e] = big(from[e]);
}

/* Elements of chunk j, the last one's are fewer. */
static inline int64_t elements_of(const Transfer *t, int64_t j, int64_t k) {
    int64_t left = t->elements - j * k;
    return left < k ? left : k;
}

/* A row's packet and its result have a tag in place of a vector, or neither. */
static inline void set_bare(Row *row, bool bare) { row->bare = row->answer_bare = bare; }

/* Whether a row's result is one worker's vector, by its part. */
static inline bool from_owner(uint32_t part) { return big(part) >> 24 == FROM_OWNERS; }

/* Whether results of two rows of a path, by their parts, come in the order in which these were sent, unless packets are lost. One
   worker's vector may come before that of an earlier chunk of another owner, or before a sum: paths differ in length. */
static inline bool in_order(uint32_t a, uint32_t b) { return a == b || (!from_owner(a) && !from_owner(b)); }

/* A remainder that is never negative. */
static inline int64_t modulo(int64_t x, int64_t n) { return (x % n + n) % n; }

/* Have room in an array for so many more of its elements. */
static inline void *grown(void *array, int64_t *room, int64_t needed, size_t size) {
    if (needed <= *room)
        return array;
    *room = needed > 2 * *room ? needed : 2 * *room;
    void *found = realloc(array, *room * size);
    return found ? found : (abort(), NULL);
}

#define GROW(array, room, needed) ((array) = grown((array), &(room), (needed), sizeof *(array)))

/* recovery.c */
#define GAP 3 /* results of chunks sent later after which one is overdue, where packets keep their order */
void recovery_settled(Stream *, const int32_t *rows, const bool *once, int count, double now);
void recovery_expired(Stream *, const int32_t *rows, int count, double now);
void recovery_answered(Stream *, const int32_t *rows, const bool *lacking, int count, double now, bool near);
void recovery_disordered(Stream *, int32_t row, double now);
void recovery_lost(Stream *, const int32_t *rows, int count, double now);
void recovery_needless(Stream *, const bool *on_path, double now);

/* stream.c */
void stream_init(Stream *, const Scheme *, int32_t rows, int32_t paths, enum stream_recovery);
void stream_join(Stream *, int32_t job, int32_t rank, uint32_t epoch, int32_t workers);
void stream_release(Stream *);
void stream_set_deadline(Stream *, Row *, double deadline);
void outbox_put(Outbox *, const int32_t *rows, int count, int64_t behind, int32_t peer, int32_t length, bool urgent);
void stream_put(Stream *, const int32_t *rows, int count, bool urgent, int32_t length, int64_t behind);
int32_t stream_bytes(const Stream *, const Row *, bool bare);
void stream_send(Stream *, const int32_t *rows, int count, double now, bool urgent);
void stream_retransmit(Stream *, const int32_t *rows, int count, double now, bool urgent);
void stream_settled(Stream *, const int32_t *rows, const bool *once, int count, double now);
void stream_needless(Stream *, int64_t count, const bool *on_path, double now);
Transfer *stream_start(Stream *, const Transfer *);
void stream_announced(Stream *, const Transfer *, const int32_t *total);
void stream_finish(Stream *, int64_t place);
