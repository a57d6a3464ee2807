/* Reliable connections (RC) of a network interface, without a socket or a clock: requests are acknowledged, and sent again where that
   is missing (InfiniBand Architecture Specification 1.4, section 9.7). Rates by DCQCN (Zhu et al., SIGCOMM '15). Times are in
   seconds. */
#pragma once

#include "core.h"

enum rc_sizes {
    RC_REQUESTS = 256,     /* of a queue pair that are not acknowledged */
    RC_WINDOW = 256,       /* packets under way, at most */
    RC_MESSAGE = 16384,    /* bytes of a message, at most: of a receive buffer */
    RC_BUFFER = 262144,    /* bytes that are not acknowledged, or have come and were not taken */
    RC_LARGEST = 4096,     /* bytes of a packet's payload, at most */
    RC_PACKET = 4160,      /* and of the whole */
    RC_BITS = 32,          /* bytes that tell which packets of a window have come */
};

enum rc_kind { RC_SEND, RC_WRITE };
enum rc_end { RC_OPEN, RC_RETRIES, RC_REFUSED, RC_ACCESS }; /* why a queue pair takes no more part: none, no answer, an answer */

/* What all queue pairs of an interface have in common. */
typedef struct {
    int32_t payload;     /* bytes of a packet's, at most (the path's MTU) */
    int32_t window;      /* packets under way */
    int32_t retries;     /* timeouts in a row until it gives up */
    bool selective;      /* send again what is missing alone; else everything from there on (go-back-N) */
    double timeout;
    double rate;         /* bytes a second of the link */
    bool dcqcn;
    double unit;         /* seconds by which DCQCN's intervals are counted */
} RcSettings;

/* A message that is sent, and not acknowledged as a whole. Packets and bytes are counted from the queue pair's first on. */
typedef struct {
    int64_t first, packets;
    int64_t begin, bytes;
    uint64_t address; /* of a write */
    uint32_t key, immediate;
    int32_t kind; /* enum rc_kind */
    bool with_immediate;
} RoceRequest;

/* A sender's rate, in bytes a second (DCQCN's reaction point), and how much congestion it believes in. */
typedef struct {
    double current, target, alpha;
    double weakens_at, grows_at; /* when alpha falls, and the timer makes the rate rise */
    double free_at;              /* when the next packet may leave */
    int64_t bytes;               /* since the rate last rose by them */
    int32_t by_time, by_bytes;   /* how often it rose since it last fell */
} DcqcnRate;

/* Since a queue pair began. Messages are what its host's processor handles. */
typedef struct {
    int64_t packets, bytes, again, acknowledgments, timeouts, messages_sent, messages_received, marked, notified;
} RcCounters;

enum rc_state { RC_UNDER_WAY, RC_ARRIVED, RC_LOST, RC_RESENT }; /* a packet's, where they are told apart */

/* One end of a reliable connection. */
typedef struct {
    uint32_t own, remote;           /* numbers of the queue pair at both ends */
    uint32_t source, destination;   /* IPv4 addresses, in the network's byte order */
    uint16_t source_port, remote_port; /* of UDP, from which both ends send */
    int32_t ended;                  /* enum rc_end */
    RcCounters counters;

    /* the requester */
    uint32_t first_psn;             /* number of its first packet */
    RoceRequest requests[RC_REQUESTS]; /* a ring */
    int64_t requests_first, requests_count;
    uint8_t *outgoing;              /* a ring of RC_BUFFER bytes */
    int64_t posted_bytes, released_bytes, sent_bytes; /* the last: up to the farthest packet that was sent */
    int64_t posted, acknowledged, next, farthest; /* packets: all, up to this one, next to be sent, behind all that were */
    double deadline, ready_at;      /* of an acknowledgment, and until when the other end is not ready */
    int32_t tries;
    bool probes;                    /* the other end was not ready: one packet at a time, until one is taken */
    uint8_t states[RC_WINDOW];      /* enum rc_state, by number modulo RC_WINDOW */
    DcqcnRate rate;

    /* the responder */
    uint32_t expected_psn;          /* number of the other end's first packet */
    int64_t expected;               /* packets */
    int32_t kind;                   /* of the message under way */
    bool under_way, refused;        /* whether one is; whether a missing packet has been told of */
    uint8_t *at;                    /* where a write goes on */
    int64_t left, bytes;            /* bytes of it, and of all of a message */
    uint8_t *incoming;              /* a ring of RC_BUFFER bytes */
    int64_t written, came, taken;   /* bytes: all, of whole messages, and taken from there */
    int64_t whole;                  /* messages */
    uint8_t *held;                  /* RC_WINDOW packets that came too early, where they are told apart */
    uint32_t held_lengths[RC_WINDOW];
    int32_t answer;                 /* enum roce_syndrome, -1: none is due */
    bool notify;                    /* a notification of congestion is due */
    double notified_at;
} RoceReliable;

/* An interface: its queue pairs, which have consecutive numbers. */
typedef struct {
    RcSettings settings;
    RoceReliable *pairs;
    int32_t pairs_count, turn;      /* the pair whose turn it is to send */
    uint32_t first_pair;
    RoceRegion regions[ROCE_REGIONS];
    int32_t regions_count;
    RoceDropped dropped;
} RoceAdapter;

/* A packet that leaves, by whose turn it is. */
typedef struct {
    int32_t pair, length; /* in bytes; 0: none may leave now */
    bool urgent;          /* an acknowledgment, or a notification */
} RoceLeaving;

RoceAdapter *adapter_new(int32_t pairs, uint32_t first_pair, const RcSettings *);
void adapter_free(RoceAdapter *);
void adapter_connect(
    RoceAdapter *, int32_t pair, uint32_t source, uint32_t destination, uint16_t source_port, uint16_t remote_port,
    uint32_t remote, uint32_t first_psn, uint32_t expected_psn, double now);
void adapter_received(RoceAdapter *, const uint8_t *packet, uint32_t length, uint16_t identification, bool marked, double now);
RoceLeaving adapter_next(RoceAdapter *, uint8_t *packet, double now);
void adapter_expired(RoceAdapter *, double now);
double adapter_due(const RoceAdapter *, double now);

bool rc_post(
    RoceReliable *, const RcSettings *, int32_t kind, const uint8_t *payload, int64_t bytes, uint64_t address, uint32_t key,
    bool with_immediate, uint32_t immediate);
int64_t rc_room(const RoceReliable *);
int64_t rc_unsent(const RoceReliable *);
int64_t rc_take(RoceReliable *, uint8_t *into, int64_t most);
