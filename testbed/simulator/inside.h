/* What the sources of the simulator share, and Python does not see. */
#pragma once

#include "../../hosts/stream/inside.h"
#include "world.h"

enum what { BEGIN, WAKE, TIMER, PACKET }; /* an event is */

#define NEVER_LATE -1.0
#define HEADER 28 /* bytes of memory that a packet has */
#define WHOLE 255 /* the length of a packet with a vector, which is not there */
#define NUMBERS 0xffffff /* of packets over RoCE */

/* Bytes of headers that a message's first packet alone has over RoCE, and its last. */
enum framing { ADDRESS = 16, IMMEDIATE = 4 };

/* A packet over RoCE: what the switch makes of its headers (p4/include/switchml/roce_receiver.p4), and the sequence number. Of the
   immediate's exponents there is one, in seven bits: without values all are alike. */
typedef struct {
    SwitchmlStatus status;
    uint32_t psn;
} Written;

static inline Written *written(Packet *p) { return (Written *)p->header; }
static inline int8_t framing(int32_t place, int32_t message) { /* what the packet at this place of a message lacks */
    return (place ? ADDRESS : 0) + (place + 1 < message ? IMMEDIATE : 0);
}

static inline SwitchmlStatus *switchml(Packet *p) { return (SwitchmlStatus *)p->header; }
static inline AtpHeader *atp(Packet *p) { return (AtpHeader *)p->header; }
static inline void schedule(World *w, double time, int64_t number, enum what what) { heap_push(&w->events, time, number * 4 + what); }
static inline Branch *branch(World *w, int32_t tree, int32_t node) {
    return &w->branches[(int64_t)tree * (w->workers + w->switches + w->servers) + node];
}

/* lines.c */
int32_t new_packet(World *);
void drop(World *, int32_t packet);
void cross_from_host(World *, double now, int32_t packet, int32_t link, bool urgent);
bool is_due(World *, int32_t packet, double now);
bool arrives(World *, int32_t packet);
bool loses(const World *, Line *);
void leave_switch(World *, double now, int32_t packet, int32_t link, enum way);
double busy_switch(World *, int32_t node, double now);

/* pool.c, aggregators.c */
void switchml_switch(World *, double now, int32_t packet);
void atp_switch(World *, double now, int32_t packet);

/* queue_pairs.c */
bool comes_in_sequence(World *, const Packet *);
bool number(World *, Packet *, int32_t below, enum way, bool again);

/* interfaces.c */
void write_out(World *, Host *, const uint8_t *work, const Send *, double now);
void write_in(World *, Host *, const Datagrams *, double now);

/* hosts.c */
void leave(World *, Host *, const Packet *, const Send *, double now);
void begin_sum(World *, int32_t host, double now);
void ring(World *, int32_t host, double now);
void look(World *, int32_t host, double now);
void arrive(World *, int32_t host, int32_t packet, double now);
