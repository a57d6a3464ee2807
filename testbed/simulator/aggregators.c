/* A switch's aggregators, as p4/atp.p4 and tests/atp_reference.py have them: what a packet does to its own, and what leaves.

   Bitmaps and owners stay in the network's byte order: they are compared, and their bits counted. */
#include "inside.h"

#define LIFETIME 1.0 /* seconds that others respect an aggregator that is not touched: schemes.atp.AGGREGATOR_LIFETIME */

static int bits(uint32_t seen) { return __builtin_popcount(seen); }

/* A packet at a switch, and what it is about there. */
typedef struct {
    World *w;
    double now;
    int32_t number;
    Packet *p;
    AtpHeader *header;
    const Branch *branch;
    Aggregator *its;
} Visit;

static void note(const Visit *v, enum atp_event event) {
    v->w->happened[((int64_t)(v->p->node - v->w->workers) * v->w->jobs_count + v->p->job) * ATP_EVENTS + event]++;
}

/* The packet leaves for the next switch on the way to its server, or for that. */
static void go_up(const Visit *v) {
    v->p->node = v->branch->above;
    leave_switch(v->w, v->now, v->number, v->branch->link, v->branch->way);
}

/* A packet leaves for a node below. */
static void go_down(World *w, double now, int32_t number, int32_t node) {
    Packet *p = &w->packets[number];
    const Branch *b = branch(w, p->tree, node);
    p->node = node;
    leave_switch(w, now, number, b->link, 1 - b->way);
}

/* The packet leaves for the next node on the way down to its goal. */
static void go_to(const Visit *v) {
    int32_t node = v->p->goal;
    while (branch(v->w, v->p->tree, node)->above != v->p->node)
        node = branch(v->w, v->p->tree, node)->above;
    go_down(v->w, v->now, v->number, node);
}

/* A result leaves for all workers below, and switches, each of which spreads it further. */
static void spread(const Visit *v) {
    Packet its = *v->p; /* copies make room, which moves packets */
    drop(v->w, v->number);
    for (int32_t i = 0; i < v->branch->count; i++) {
        int32_t copy = new_packet(v->w), child = v->w->children[v->branch->first + i];
        v->w->packets[copy] = its;
        v->w->packets[copy].goal = child;
        go_down(v->w, v->now, copy, child);
    }
}

/* A gradient leaves for its server, with these children (ModelAtpSwitch._on). */
static void go_on(const Visit *v, uint32_t seen) {
    if (v->branch->level == LOCAL)
        v->header->bitmap1 = seen;
    else
        v->header->bitmap0 = bits(seen) == v->branch->fan_in ? 0 : seen;
    go_up(v);
}

static uint32_t who(const Visit *v) { return v->branch->level == REMOTE ? v->header->bitmap0 : v->header->bitmap1; }

/* Whether a packet's aggregator holds its chunk. */
static bool owns(const Visit *v) { return v->its->seen && v->its->owner == v->header->owner; }

static void refuse(const Visit *v) {
    v->its->refused = v->header->owner;
    v->its->has_refused = true;
}

/* A gradient of a chunk that its aggregator does not hold. */
static void come_new(const Visit *v) {
    Aggregator *its = v->its;
    AtpHeader *header = v->header;
    bool late = (its->has_refused && its->refused == header->owner) || (its->has_finished && its->finished == header->owner);
    bool held = its->seen && v->now - its->touched <= LIFETIME, whole = bits(who(v)) >= v->branch->fan_in;
    if (!(header->flags & RESEND) && (held || (late && !whole))) {
        refuse(v);
        header->flags |= COLLISION;
        note(v, COLLIDE);
    } else if (!(header->flags & RESEND) && !whole) {
        its->owner = header->owner;
        its->seen = who(v);
        its->length = v->p->length;
        its->touched = v->now;
        its->asked = false;
        its->ecn = header->flags & ECN;
        its->again = header->flags & ASKED;
        note(v, CLAIM);
        drop(v->w, v->number);
        return;
    } else
        note(v, PASS);
    go_on(v, who(v));
}

/* ModelAtpSwitch.gradient. */
static void gradient(const Visit *v) {
    Aggregator *its = v->its;
    AtpHeader *header = v->header;
    if (v->branch->level == LOCAL && header->bitmap0) {
        if (header->flags & COLLISION)
            refuse(v);
        note(v, PASS);
        go_up(v);
        return;
    }
    if (!owns(v)) {
        come_new(v);
        return;
    }
    bool stays = (header->flags & JOINS) != RESEND;
    uint32_t missing = who(v) & ~its->seen;
    if (missing) {
        its->seen |= who(v);
        its->touched = v->now;
        its->ecn |= header->flags & ECN;
        its->again |= header->flags & ASKED;
    }
    uint32_t seen = its->seen;
    if (stays && (!missing || bits(seen) < v->branch->fan_in)) {
        drop(v->w, v->number);
        return;
    }
    header->flags |= its->ecn;
    note(v, stays ? COMPLETE : FLUSH);
    if (stays)
        header->flags = (header->flags & ~JOINS) | its->again;
    else
        its->seen = 0;
    go_on(v, seen);
}

/* ModelAtpSwitch.query. */
static void query(const Visit *v) {
    Aggregator *its = v->its;
    AtpHeader *header = v->header;
    bool remote = v->branch->level == REMOTE;
    if ((v->branch->level == LOCAL && header->bitmap0) || !owns(v)) {
        if (remote && v->branch->fan_in == 1)
            header->bitmap0 = 0;
        go_up(v);
        return;
    }
    if (who(v) & ~its->seen || bits(its->seen) < v->branch->fan_in || (its->asked && !(header->flags & ASKED))) {
        header->kind = ATP_STATUS;
        header->flags = (header->flags & ECN) | JOINS;
        *(remote ? &header->bitmap0 : &header->bitmap1) = its->seen;
        note(v, ANSWER);
        go_to(v);
        return;
    }
    its->asked = true;
    *(remote ? &header->bitmap0 : &header->bitmap1) = remote ? 0 : its->seen;
    go_up(v);
}

/* ModelAtpSwitch.status. */
static void status(const Visit *v) {
    Aggregator *its = v->its;
    AtpHeader *header = v->header;
    if (!owns(v)) {
        go_to(v);
        return;
    }
    its->asked = false;
    bool there = v->branch->level == LOCAL ? header->bitmap1 : header->bitmap1 & v->branch->one;
    bool complete = bits(its->seen) == v->branch->fan_in;
    uint32_t seen = its->seen;
    if (there || !complete) {
        if (!there || header->flags & ASKED) {
            go_to(v);
            return;
        }
        its->seen = 0; /* the server has a part: what is missing here will not come, or the whole is of no use */
        if (complete) {
            go_to(v);
            return;
        }
    }
    note(v, its->seen ? REPAIR : FLUSH);
    header->kind = ATP_GRADIENT;
    v->p->length = its->length;
    header->flags |= ASKED | its->ecn;
    header->bitmap0 = v->branch->level == REMOTE && !complete ? seen : 0;
    header->bitmap1 = v->branch->level == REMOTE ? v->branch->one : seen;
    go_up(v);
}

/* ModelAtpSwitch.result, of one that is for all below; another passes by. */
static void result(const Visit *v) {
    if (v->p->goal != v->p->node) {
        go_to(v);
        return;
    }
    v->its->finished = v->header->owner;
    v->its->has_finished = true;
    if (owns(v)) {
        note(v, FREE);
        v->its->seen = 0;
    }
    spread(v);
}

void atp_switch(World *w, double now, int32_t packet) {
    Packet *p = &w->packets[packet];
    AtpHeader *header = atp(p);
    int64_t place = (int64_t)(p->node - w->workers) * w->aggregators_count + big_short(header->index);
    Visit v = {w, busy_switch(w, p->node, now), packet, p, header, branch(w, p->tree, p->node), &w->aggregators[place]};
    bool transit = v.branch->level == TRANSIT;
    if (header->kind == ATP_RESULT)
        result(&v);
    else if (header->kind == ATP_STATUS)
        transit ? go_to(&v) : status(&v);
    else if (transit)
        go_up(&v);
    else if (header->kind == ATP_QUERY)
        query(&v);
    else
        gradient(&v);
}
