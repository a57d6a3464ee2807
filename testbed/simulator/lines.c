/* How packets get from one node to the next: a link sends one after another at its rate, a host's urgent ones first, and loses
   some. */
#include "inside.h"

#define NOTHING 1e-6 /* of a packet: what rounding may add */

int32_t new_packet(World *w) {
    if (w->free < 0) {
        int64_t before = w->packets_room;
        GROW(w->packets, w->packets_room, before ? before + 1 : 1 << 12);
        for (int64_t i = before; i < w->packets_room; i++)
            w->packets[i].following = i + 1 < w->packets_room ? i + 1 : -1;
        w->free = before;
    }
    int32_t found = w->free;
    w->free = w->packets[found].following;
    w->packets[found].following = -1;
    return found;
}

/* A packet is no more. */
void drop(World *w, int32_t packet) {
    w->packets[packet].following = w->free;
    w->free = packet;
}

static uint32_t mix(uint32_t x) { /* the finalizer of MurmurHash3 */
    x = (x ^ x >> 16) * 0x85EBCA6Bu;
    x = (x ^ x >> 13) * 0xC2B2AE35u;
    return x ^ x >> 16;
}

/* Whether a line's next packet is lost: what p4/include/loss.p4 decides, from the same seeds and numbers. Where no link loses any,
   none is numbered. */
bool loses(const World *w, Line *line) {
    if (w->good == 0 && w->enter == 0)
        return false;
    uint32_t draw = mix(line->seed ^ mix(line->numbered++));
    line->bad ^= mix(draw ^ 0x5BD1E995u) < (line->bad ? w->leave : w->enter);
    bool lost = draw < (line->bad ? w->bad : w->good);
    line->lost += lost;
    return lost;
}

static double time_on(const Packet *p, const Line *line) { return (p->length ? line->header : line->vector) - p->lacks * line->octet; }

/* A host's packet goes over its link, after what was sent before; an urgent one before all that have not begun to cross. Those arrive
   later then: the events of their arrivals are there already, and find that they are not due. */
void cross_from_host(World *w, double now, int32_t packet, int32_t link, bool urgent) {
    Packet *p = &w->packets[packet];
    Line *line = &w->lines[2 * link + UP];
    double takes = time_on(p, line), start = fmax(now, line->busy);
    line->busy = start + takes;
    p->link = link;
    if (urgent) {
        int32_t waits = line->head;
        while (waits >= 0 && w->packets[waits].start <= now)
            waits = w->packets[waits].following;
        if (waits >= 0)
            start = w->packets[waits].start;
        for (; waits >= 0; waits = w->packets[waits].following) {
            w->packets[waits].start += takes;
            w->packets[waits].due += takes;
        }
        p->due = NEVER_LATE;
    } else {
        p->start = start;
        p->due = start + takes + w->costs.delay;
        p->following = -1;
        *(line->head < 0 ? &line->head : &w->packets[line->tail].following) = packet;
        line->tail = packet;
    }
    schedule(w, start + takes + w->costs.delay, packet, PACKET);
}

/* Whether a packet arrives, which something urgent may have overtaken; else it does later. */
bool is_due(World *w, int32_t packet, double now) {
    Packet *p = &w->packets[packet];
    if (p->due == NEVER_LATE)
        return true;
    if (p->due > now) {
        schedule(w, p->due, packet, PACKET);
        return false;
    }
    w->lines[2 * p->link + UP].head = p->following;
    return true;
}

/* Whether the link that a packet has crossed has not lost it. The upper end of a link decides, for both directions. */
bool arrives(World *w, int32_t packet) {
    int32_t link = w->packets[packet].link;
    return link < 0 || !loses(w, &w->lines[2 * link + UP]);
}

/* A switch's packet goes over a link, and arrives after its delay; unless the queue before it is full. A queue that has a rate lets
   packets go one after another, whatever their size, and tells how many wait. */
static void cross(World *w, double now, int32_t packet, Line *line) {
    Packet *p = &w->packets[packet];
    p->due = NEVER_LATE;
    if (line->pace > 0) {
        int64_t waiting = (int64_t)ceil((line->paced - now) / line->pace - NOTHING) - 1; /* those that have not left */
        if (line->depth && waiting >= line->depth) {
            line->dropped++;
            drop(w, packet);
            return;
        }
        if (line->deep && waiting >= line->deep && w->jobs[p->job].atp)
            atp(p)->flags |= ECN;
        now = fmax(now, line->paced);
        line->paced = now + line->pace;
    } else if (line->depth && line->busy - now > line->depth * line->vector) {
        line->dropped++;
        drop(w, packet);
        return;
    }
    line->busy = fmax(now, line->busy) + time_on(p, line);
    schedule(w, line->busy + w->costs.delay, packet, PACKET);
}

/* A switch's packet leaves for its node, unless the link loses it: downwards at once, upwards on arrival. */
void leave_switch(World *w, double now, int32_t packet, int32_t link, enum way way) {
    Line *line = &w->lines[2 * link + way];
    if (way == DOWN && loses(w, line)) {
        drop(w, packet);
        return;
    }
    w->packets[packet].link = way == UP ? link : -1;
    cross(w, now, packet, line);
}

/* A packet has arrived at a switch, which looks at one after another: when it has looked at this one. */
double busy_switch(World *w, int32_t node, double now) {
    double *busy = &w->busy[node - w->workers];
    return *busy = fmax(now, *busy) + w->costs.switch_;
}
