/* A switch's pool of slots, as p4/switchml.p4 and tests/reference.py have it: what a packet does to its cell, and what leaves. */
#include "inside.h"

/* A packet leaves by the link above the node `below`, `again` if it carries what was sent before. Over RoCE some do not leave, but
   downwards they are numbered for losses: in the program those come last. */
static void leave_by(World *w, double now, int32_t packet, int32_t below, enum way way, bool again) {
    Packet *p = &w->packets[packet];
    int32_t link = branch(w, p->tree, below)->link;
    if (!w->jobs[p->job].message || number(w, p, below, way, again)) {
        leave_switch(w, now, packet, link, way);
        return;
    }
    if (way == DOWN)
        loses(w, &w->lines[2 * link + DOWN]);
    drop(w, packet);
}

/* A copy of a packet as another kind, from a switch to a node that has this switch above it. */
static void send_down(World *w, double now, const Packet *like, enum switchml_kind kind, int32_t node, bool again) {
    int32_t copy = new_packet(w);
    Packet *p = &w->packets[copy];
    *p = *like;
    switchml(p)->header.kind = kind;
    p->node = node;
    p->child = -1;
    leave_by(w, now, copy, node, DOWN, again);
}

/* Likewise to all of the job's nodes below. */
static void multicast(World *w, double now, const Packet *like, enum switchml_kind kind) {
    const Branch *b = branch(w, like->tree, like->node);
    for (int32_t i = 0; i < b->count; i++)
        send_down(w, now, like, kind, w->children[b->first + i], false);
}

/* Likewise to the switch above. */
static void send_up(World *w, double now, const Packet *like, enum switchml_kind kind, bool again) {
    int32_t copy = new_packet(w);
    Packet *p = &w->packets[copy];
    const Branch *b = branch(w, like->tree, like->node);
    *p = *like;
    switchml(p)->header.kind = kind;
    p->node = b->above;
    p->child = b->child;
    leave_by(w, now, copy, like->node, UP, again);
}

/* The length of what a cell has. */
static uint8_t length_of(const Cell *cell) { return cell->bare ? sizeof(SwitchmlBare) : 0; }

/* A worker's part, or a rack's, for a cell (reference.ModelSwitch.update). */
static void update(World *w, double now, Packet *p, Cell *cell) {
    const Branch *b = branch(w, p->tree, p->node);
    SwitchmlHeader *header = &switchml(p)->header;
    int64_t chunk = big(header->chunk);
    uint32_t own = 1u << p->child;
    if (chunk < cell->chunk)
        return; /* delayed beyond its round */
    if (chunk > cell->chunk)
        *cell = (Cell){.chunk = chunk, .asker = -1, .bare = p->length};
    if (cell->bare != !!p->length)
        return; /* of another shape */
    bool complete = cell->seen == b->everyone;
    if (cell->seen & own && !complete)
        return;
    if (!(cell->seen & own)) {
        cell->seen |= own;
        cell->exponent = header->exponent > cell->exponent ? header->exponent : cell->exponent;
        if (cell->seen != b->everyone)
            return;
    }
    header->exponent = cell->exponent;
    if (b->above >= 0 && !cell->final)
        send_up(w, now, p, SWITCHML_UPDATE, complete);
    else if (complete)
        send_down(w, now, p, SWITCHML_RESULT, w->children[b->first + p->child], true);
    else
        multicast(w, now, p, SWITCHML_RESULT);
}

/* What became of a chunk (reference.ModelSwitch.query). */
static void query(World *w, double now, Packet *p, Cell *cell) {
    const Branch *b = branch(w, p->tree, p->node);
    SwitchmlHeader *header = &switchml(p)->header;
    uint32_t inside = cell->chunk == big(header->chunk) ? cell->seen : 0;
    int32_t asking = w->children[b->first + p->child];
    if (inside != b->everyone) {
        switchml(p)->seen = big(inside);
        header->mark = 0;
        send_down(w, now, p, SWITCHML_STATUS, asking, false);
    } else if (cell->final || b->above < 0) {
        header->mark = SWITCHML_AGAIN;
        header->exponent = cell->exponent;
        p->length = length_of(cell);
        send_down(w, now, p, SWITCHML_RESULT, asking, true);
    } else {
        if (cell->asker < 0 || header->mark == SWITCHML_INSISTS)
            cell->asker = p->child;
        else if (cell->asker != p->child || header->mark == 0)
            return;
        send_up(w, now, p, SWITCHML_QUERY, false);
    }
}

/* A result, or what the switch above lacks (reference.ModelSwitch.result and status). */
static void from_above(World *w, double now, Packet *p, Cell *cell) {
    const Branch *b = branch(w, p->tree, p->node);
    SwitchmlHeader *header = &switchml(p)->header;
    if (cell->chunk != big(header->chunk) || cell->seen != b->everyone || cell->final)
        return; /* a second copy, or too late */
    if (header->kind == SWITCHML_RESULT) {
        if (cell->bare != !!p->length)
            return;
        cell->final = true;
        cell->exponent = header->exponent;
        multicast(w, now, p, SWITCHML_RESULT);
    } else if (header->mark || big(switchml(p)->seen) >> b->child & 1) {
        header->mark++;
        multicast(w, now, p, SWITCHML_STATUS);
    } else {
        header->mark = SWITCHML_AGAIN;
        header->exponent = cell->exponent;
        p->length = length_of(cell);
        send_up(w, now, p, SWITCHML_UPDATE, true);
    }
}

void switchml_switch(World *w, double now, int32_t packet) {
    Packet its = w->packets[packet]; /* copies make room, which moves them */
    const SimulatedJob *job = &w->jobs[its.job];
    SwitchmlHeader *header = &switchml(&its)->header;
    int64_t slot = big_short(header->slot), number = job->base + header->version * job->slots + slot;
    Cell *cell = &w->cells[(int64_t)(its.node - w->workers) * w->cells_count + number];
    drop(w, packet);
    now = busy_switch(w, its.node, now);
    if (job->message && !comes_in_sequence(w, &its))
        return;
    if (header->kind == SWITCHML_UPDATE)
        update(w, now, &its, cell);
    else if (header->kind == SWITCHML_QUERY)
        query(w, now, &its, cell);
    else
        from_above(w, now, &its, cell);
}
