/* What the sources of RoCEv2's endpoints share, and Python does not see. */
#pragma once

#include "../stream/inside.h"
#include "core.h"
#include "reliable.h"
#include "wire.h"

#define PARTITION 0xffff   /* the default one, as a full member */
#define WHOLE 0x7fff       /* of a partition's number: whoever is in it has these bits */
#define NUMBERS 0xffffff   /* of queue pairs and packets */
#define ASKS 0x80000000u   /* of the word with a packet's number: for an acknowledgment */
#define CONGESTED 0x40000000u /* of the word with a queue pair's number: BECN (annex A17.9.1) */
#define PAD 0x30           /* of the flags: bytes behind a payload, that make it a multiple of four */
#define NEVER_DUE 1e300    /* seconds */

static inline bool roce_whole(
    uint32_t source, uint32_t destination, uint16_t identification, uint16_t source_port, uint16_t port, const uint8_t *packet,
    uint32_t length) {
    uint32_t icrc;
    memcpy(&icrc, packet + length - ROCE_ICRC_BYTES, sizeof icrc); /* lowest byte first */
    return icrc == roce_icrc(source, destination, identification, source_port, port, packet, length);
}

/* Bytes into or out of a ring of RC_BUFFER, from a place on that is counted from its first byte. */
static inline void ring_put(uint8_t *ring, int64_t place, const uint8_t *from, int64_t bytes) {
    int64_t at = place % RC_BUFFER, here = RC_BUFFER - at < bytes ? RC_BUFFER - at : bytes;
    memcpy(ring + at, from, here);
    memcpy(ring, from + here, bytes - here);
}

static inline void ring_get(const uint8_t *ring, int64_t place, uint8_t *into, int64_t bytes) {
    int64_t at = place % RC_BUFFER, here = RC_BUFFER - at < bytes ? RC_BUFFER - at : bytes;
    memcpy(into, ring + at, here);
    memcpy(into + here, ring, bytes - here);
}

/* endpoint.c */
uint8_t *roce_place(const RoceRegion *, int32_t count, RoceDropped *, uint64_t address, uint32_t key, uint64_t length);

/* dcqcn.c */
void dcqcn_init(DcqcnRate *, const RcSettings *, double now);
void dcqcn_notified(DcqcnRate *, const RcSettings *, double now);
void dcqcn_sent(DcqcnRate *, const RcSettings *, int32_t bytes, double now);

/* requester.c */
int64_t requester_leaving(const RoceReliable *, const RcSettings *, double now);
int32_t requester_packet(RoceReliable *, const RcSettings *, int64_t number, uint8_t *packet, double now);
void requester_acknowledged(RoceReliable *, const RcSettings *, uint32_t psn, uint8_t syndrome, const uint8_t *came, double now);
void requester_expired(RoceReliable *, const RcSettings *, double now);
double requester_due(const RoceReliable *, const RcSettings *, double now);

/* responder.c */
void responder_received(RoceReliable *, RoceAdapter *, const uint8_t *packet, uint32_t length);
int32_t responder_answer(RoceReliable *, uint8_t *packet);

/* reliable.c */
int64_t rc_number(uint32_t psn, uint32_t first, int64_t near);
int32_t rc_seal(const RoceReliable *, uint8_t *packet, uint8_t *end);
