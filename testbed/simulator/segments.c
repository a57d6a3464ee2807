/* TCP in segments: a connection sends as many as its window has room for, in a burst. Every second one is acknowledged (RFC 9293,
   section 3.8.6.3), and the last of a message; acknowledgments go back over the same links, behind the data that waits there. So a
   window that is smaller than that of a connection the other way has less of its link.

   Links are HTB's, as topologies.links sets them: a token bucket lets a short burst pass at once. Queues hold all that comes, and
   windows stay as they are: nothing is lost. */
#include "segments.h"

#include "../../hosts/stream/inside.h"

Wires *wires_new(int64_t wires) {
    Wires *w = calloc(1, sizeof *w);
    w->wires = calloc(wires, sizeof *w->wires);
    w->free = -1;
    return w;
}

/* Have room for so many. */
void wires_room(Wires *w, int64_t connections, int64_t messages, int64_t way) {
    GROW(w->connections, w->connections_room, connections);
    GROW(w->messages, w->messages_room, messages);
    GROW(w->way, w->way_room, way);
}

void wires_free(Wires *w) {
    void *held[] = {w->wires, w->way, w->connections, w->messages, w->segments, w->crossings.events, w};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        free(held[i]);
}

/* A packet crosses the next link of its way. */
static void cross(Wires *w, int32_t segment) {
    const Segment *p = &w->segments[segment];
    Wire *wire = &w->wires[w->way[w->connections[p->connection].first + p->hop]];
    wire->busy = fmax(w->now, wire->busy) + p->bits / wire->rate;
    heap_push(&w->crossings, fmax(w->now, wire->busy - wire->bucket) + w->delay, segment);
}

static int32_t new_segment(Wires *w) {
    if (w->free < 0) {
        int64_t had = w->segments_room;
        GROW(w->segments, w->segments_room, had ? had + 1 : 1 << 12);
        for (int64_t i = had; i < w->segments_room; i++)
            w->segments[i].connection = i + 1 < w->segments_room ? i + 1 : -1;
        w->free = had;
    }
    int32_t found = w->free;
    w->free = w->segments[found].connection;
    return found;
}

/* A packet is no more. */
static void release(Wires *w, int32_t segment) {
    w->segments[segment].connection = w->free;
    w->free = segment;
}

/* Send what the window has room for. */
static void pump(Wires *w, int64_t connection) {
    SegmentedConnection *c = &w->connections[connection];
    while (c->head >= 0 && c->flying < c->window) {
        SegmentedMessage *m = &w->messages[c->head];
        int32_t segment = new_segment(w);
        m->sending--;
        w->segments[segment] = (Segment){connection, 0, c->head, 0, m->sending ? w->bits + w->header_bits : m->last};
        c->flying++;
        if (m->sending == 0)
            c->head = m->following;
        cross(w, segment);
    }
}

/* A message is to be sent, behind those of its connection. */
void wires_send(Wires *w, int64_t connection, int64_t message) {
    SegmentedConnection *c = &w->connections[connection];
    *(c->head < 0 ? &c->head : &w->messages[c->tail].following) = message;
    c->tail = message;
    pump(w, connection);
}

/* A segment has come to the other host; the message that is complete now, or NO_MESSAGE. */
static int64_t come(Wires *w, int32_t segment) {
    Segment *p = &w->segments[segment];
    SegmentedConnection *c = &w->connections[p->connection];
    SegmentedMessage *m = &w->messages[p->message];
    int64_t message = p->message;
    m->coming--;
    c->received++;
    if (c->received == 2 || m->coming == 0) {
        p->acknowledges = c->received;
        p->bits = w->header_bits;
        c->received = 0;
        cross(w, segment);
    } else
        release(w, segment);
    return m->coming == 0 ? message : NO_MESSAGE;
}

/* Let time pass until then, or until a message has come, which it returns. NO_MESSAGE also where packets have crossed links `most`
   times, since the beginning. */
int64_t wires_go(Wires *w, double until, int64_t most) {
    while (w->crossings.count && w->crossings.events[0].time <= until && w->crossings.order < most) {
        Event crossing = heap_pop(&w->crossings);
        int32_t segment = crossing.what;
        w->now = crossing.time;
        Segment *p = &w->segments[segment];
        int64_t connection = p->connection, links = w->connections[connection].links;
        p->hop++;
        if (p->hop == 2 * links) { /* an acknowledgment: a part of the window is free again */
            w->connections[connection].flying -= p->acknowledges;
            release(w, segment);
            pump(w, connection);
        } else if (p->acknowledges || p->hop < links)
            cross(w, segment);
        else {
            int64_t message = come(w, segment);
            if (message != NO_MESSAGE)
                return message;
        }
    }
    return NO_MESSAGE;
}
