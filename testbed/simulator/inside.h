/* What the sources of the simulator share, and Python does not see. */
#pragma once

#include "../../hosts/stream/inside.h"
#include "world.h"

enum what { BEGIN, WAKE, TIMER, PACKET }; /* an event is */

#define NEVER_LATE -1.0
#define HEADER 28 /* bytes of memory that a packet has */
#define WHOLE 255 /* the length of a packet with a vector, which is not there */

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
void leave_switch(World *, double now, int32_t packet, int32_t link, enum way);
double busy_switch(World *, int32_t node, double now);

/* pool.c, aggregators.c */
void switchml_switch(World *, double now, int32_t packet);
void atp_switch(World *, double now, int32_t packet);

/* hosts.c */
void begin_sum(World *, int32_t host, double now);
void ring(World *, int32_t host, double now);
void look(World *, int32_t host, double now);
void arrive(World *, int32_t host, int32_t packet, double now);
