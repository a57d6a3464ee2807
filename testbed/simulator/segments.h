/* TCP in segments: connections with windows, over links that send one packet after another (segments.c). */
#pragma once

#include "events.h"

enum came { NO_MESSAGE = -1 };

/* A segment, or an acknowledgment. */
typedef struct {
    int32_t connection;   /* of a free one: the next free one, -1: none */
    int32_t hop;          /* of the connection's way, there and back */
    int32_t message;
    int32_t acknowledges; /* segments; 0: it is one */
    double bits;
} Segment;

typedef struct {
    int64_t first, links; /* of its way in Wires.way, and how long that is, one way */
    int64_t window, flying; /* segments; those that are not acknowledged */
    int64_t head, tail;   /* messages that are to be sent, -1: none */
    int64_t received;     /* segments that the other host has not acknowledged */
} SegmentedConnection;

typedef struct {
    int64_t sending, coming; /* segments that have not been sent, and that have not come */
    double last;          /* bits of the last one */
    int64_t following;    /* on its connection, -1: none */
} SegmentedMessage;

/* A direction of a link. */
typedef struct {
    double rate;   /* bits/s */
    double bucket; /* seconds that a burst may be ahead */
    double busy;   /* until when */
} Wire;

typedef struct {
    double now, delay; /* what a link takes beside its time */
    double bits, header_bits; /* of a whole segment's data, and of headers */
    Wire *wires;
    int64_t *way;      /* directions of links, of all connections */
    SegmentedConnection *connections;
    SegmentedMessage *messages;
    int64_t way_room, connections_room, messages_room;
    Segment *segments;
    int64_t segments_room;
    int32_t free;
    Heap crossings; /* packets come to the ends of links */
} Wires;

Wires *wires_new(int64_t wires);
void wires_room(Wires *, int64_t connections, int64_t messages, int64_t way);
void wires_free(Wires *);
void wires_send(Wires *, int64_t connection, int64_t message);
int64_t wires_go(Wires *, double until, int64_t most);
