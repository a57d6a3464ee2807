/* The ATP packet as bytes, the same that p4/include/atp/headers.p4 describes; numbers are big-endian. */
#pragma once

#include <stdint.h>

enum atp_kind { ATP_GRADIENT = 1, ATP_RAW, ATP_RESULT, ATP_RELEASE, ATP_RELEASED, ATP_QUERY, ATP_STATUS };

enum atp_flag { /* bits */
    ASKED = 128,
    INTEGER = 64,
    RAW = 32,
    OVERFLOW = 16,
    RESEND = 8,
    COLLISION = 4,
    ECN = 2,
    EDGE_SWITCH = 1,
    JOINS = 136, /* RESEND | ASKED: a gradient that is sent again for an answer: it joins the aggregator that lacks it */
};

enum atp_size {
    SEQUENCES = 16777216, /* of `owner`, 24 bits behind the job's 8 */
    RANKS = 1024,         /* `next_index` of a query, which its answer repeats: who asks (10 bits), */
    ATP_TRIES = 64,       /* and how often it was sent before (6) */
};

#pragma pack(push, 1)
typedef struct {
    uint32_t bitmap0, bitmap1, epoch;
    uint8_t kind, flags;
    uint16_t index, next_index;
    uint32_t owner; /* job (8 bits) and sequence (24) */
} AtpHeader; /* k integers follow it */

typedef struct {
    AtpHeader header;
    uint32_t tag;
    uint8_t exponent;
} AtpBare; /* a gradient that announces a tensor, and its result */
#pragma pack(pop)
