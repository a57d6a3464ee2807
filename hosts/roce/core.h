/* A RoCEv2 endpoint: memory regions, queue pairs and completions (endpoint.c), without a socket or a clock. */
#pragma once

#include "../stream/core.h"

enum roce_sizes { ROCE_MOST_HEADERS = 32, ROCE_ICRC_BYTES = 4, ROCE_REGIONS = 4 }; /* bytes before a payload, and behind it */

/* Memory that the other end may write to, by an address and a key. */
typedef struct {
    uint64_t address;
    int64_t length;
    uint32_t key;
    uint8_t *memory;
} RoceRegion;

/* One end of an unreliable connection (UC). Numbers of packets are modulo 2^24. */
typedef struct {
    uint32_t remote;   /* the other end's number */
    uint32_t psn;      /* of the next packet sent */
    uint32_t expected; /* of the next packet received, while a message is under way */
    uint32_t newest;   /* the last one received, */
    bool heard;        /* if there is one */
    bool under_way;
    uint8_t *at;       /* where that goes, */
    int64_t left;      /* and how many bytes are left, */
    int64_t bytes;     /* of so many of the message */
} RoceQueuePair;

/* A message that has come whole. */
typedef struct {
    uint32_t queue_pair, immediate;
    uint8_t *message; /* where it is */
    int64_t bytes;
} RoceCompletion;

/* A write as an interface takes it that is not ours, the kernel's, and what it tells of one that has come; the payload follows. */
typedef struct {
    uint32_t pair, immediate, key, bytes;
    uint64_t address;
    uint64_t anew; /* the queue pair begins again before it */
} RoceWork;

/* Packets that an endpoint has dropped, by reason. */
typedef struct {
    int64_t malformed, icrc, queue_pair, key, bounds, sequence;
} RoceDropped;

typedef struct {
    uint32_t source, destination; /* IPv4 addresses, in the network's byte order */
    uint16_t source_port, port;   /* of UDP */
    uint32_t first_pair;          /* number of the first of so many queue pairs */
    int32_t pairs_count, payload; /* bytes of a packet's payload, at most (the path's MTU) */
    RoceQueuePair *pairs;
    RoceRegion regions[ROCE_REGIONS];
    int32_t regions_count;
    RoceDropped dropped;
} RoceEndpoint;

uint32_t roce_icrc(
    uint32_t source, uint32_t destination, uint16_t identification, uint16_t source_port, uint16_t port, const uint8_t *packet,
    int32_t length);
int roce_write(
    RoceEndpoint *, int32_t pair, const uint8_t *payload, int32_t bytes, uint64_t address, uint32_t key, uint32_t immediate,
    const Datagrams *packets, int64_t row, uint32_t *lengths);
bool roce_received(RoceEndpoint *, const uint8_t *packet, uint32_t length, RoceCompletion *);
bool roce_follows(RoceQueuePair *, bool first, uint32_t psn);
void roce_taken(RoceQueuePair *, bool last, uint32_t psn);
uint32_t roce_next(RoceQueuePair *);
