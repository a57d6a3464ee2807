/* Hosts: the driver that runs the real cores on a simulated network. */
#include "inside.h"

#define SERVER_NAP 0.001 /* seconds: hosts.drivers.server.NAP */

static Stream *stream_of(const Host *h) { return h->switchml ? &h->switchml->stream : h->atp ? &h->atp->stream : NULL; }
static int header_bytes(const Host *h) { return h->switchml ? sizeof(SwitchmlStatus) : sizeof(AtpHeader); }

/* The node that a server's peer is: the switch of a rack, or a worker of its job. */
static int32_t peer_node(const World *w, const Host *h, int32_t peer) {
    return peer < w->switches ? w->workers + peer : w->jobs[h->job].first + (peer - w->switches);
}

/* A host's packet leaves, after what its processor sends before. */
void leave(World *w, Host *h, const Packet *made, const Send *send, double now) {
    int32_t number = new_packet(w);
    Packet *p = &w->packets[number];
    h->busy = fmax(now, h->busy) + w->costs.host;
    *p = *made;
    p->job = h->job;
    p->tree = h->tree + (h->atp ? send->peer : 0);
    int32_t from = h->node; /* the node whose way up, or down to a server, is the host's link */
    if (h->server) {
        p->goal = peer_node(w, h, send->peer);
        p->node = from = w->children[branch(w, p->tree, h->node)->first];
    } else {
        p->goal = h->node;
        p->node = branch(w, p->tree, from)->above;
    }
    const Branch *b = branch(w, p->tree, from);
    p->child = b->child;
    cross_from_host(w, h->busy, number, b->link, send->urgent);
}

/* Do what a core wants done. */
static void carry_out(World *w, Host *h, double now) {
    Outbox *o = h->server ? &h->server->outbox : &stream_of(h)->outbox;
    const Datagrams packets = h->rdma ? h->rdma->packets : (Datagrams){.first = h->memory, .stride = HEADER};
    for (int64_t i = 0; i < o->count; i++) {
        const Send *send = &o->sends[i];
        for (int64_t n = 0; n < send->count; n++) {
            const uint8_t *row = datagram(&packets, o->leaving[send->first + n]);
            if (h->rdma) {
                write_out(w, h, row, send, now);
                continue;
            }
            Packet made = {.length = send->length == WHOLE ? 0 : send->length};
            memcpy(made.header, row, header_bytes(h));
            leave(w, h, &made, send, now);
        }
    }
    o->count = o->rows = 0;
}

static void set_timer(World *w, int32_t number, double now) {
    Host *h = &w->hosts[number];
    Stream *s = stream_of(h);
    if (!s || s->soonest >= h->timer_at)
        return;
    stream_watch(s); /* of what has come since, deadlines do not count */
    if (s->soonest >= h->timer_at)
        return;
    h->timer_at = s->soonest;
    schedule(w, fmax(h->timer_at, now), number, TIMER);
}

/* A worker has sums: perhaps the last of a step. */
static void finish(World *w, int32_t number, double now) {
    Host *h = &w->hosts[number];
    Stream *s = stream_of(h);
    for (int64_t i = 0; i < s->finished_count; i++) {
        Span *span = &w->spans[(int64_t)number * w->sums_count + s->finished[i]];
        span->ended = now;
        span->waited = s->counters.waited;
        span->results = s->counters.results;
        span->retransmissions = s->counters.retransmissions;
        if (++h->over % w->jobs[h->job].layers == 0)
            w->stepped = number;
    }
    s->finished_count = 0;
}

/* A worker comes to its next sum. */
void begin_sum(World *w, int32_t number, double now) {
    Host *h = &w->hosts[number];
    const SimulatedJob *its = &w->jobs[h->job];
    Transfer t = {.id = h->begun, .length = w->chunks[its->first_layer + h->begun % its->layers], .floats = h->exponents};
    now = fmax(now, h->busy);
    w->spans[(int64_t)number * w->sums_count + h->begun++].begun = now;
    if (h->switchml)
        switchml_start(h->switchml, &t, now);
    else
        atp_worker_start(h->atp, &t, now);
    carry_out(w, h, now);
    set_timer(w, number, now);
}

/* The worker's timer rings. Another one may have been set since, for earlier; or it sleeps, and looks when it wakes. */
void ring(World *w, int32_t number, double now) {
    Host *h = &w->hosts[number];
    if (now < h->timer_at)
        return;
    h->timer_at = INFINITY;
    if (h->woken)
        return;
    stream_expired(stream_of(h), now);
    carry_out(w, h, now);
    set_timer(w, number, now);
}

/* A host takes all that has arrived. */
void look(World *w, int32_t number, double now) {
    Host *h = &w->hosts[number];
    const Datagrams come = {h->inbox, HEADER, h->arrived, h->lengths};
    now = fmax(now, h->busy) + w->costs.batch + w->costs.host * h->arrived;
    h->busy = now;
    h->woken = false;
    h->arrived = 0;
    if (h->server)
        atp_server_received(h->server, &come, now);
    else if (h->rdma)
        write_in(w, h, &come, now);
    else if (h->switchml)
        switchml_received(h->switchml, &come, now);
    else
        atp_worker_received(h->atp, &come, now);
    if (!h->server && stream_of(h)->finished_count)
        finish(w, number, now);
    carry_out(w, h, now);
    set_timer(w, number, now);
}

/* A packet has come to a host, which looks at it at once, or when it wakes. */
void arrive(World *w, int32_t number, int32_t packet, double now) {
    Host *h = &w->hosts[number];
    const Packet *p = &w->packets[packet];
    GROW(h->lengths, h->lengths_room, h->arrived + 1);
    GROW(h->inbox, h->inbox_room, (h->arrived + 1) * HEADER);
    memcpy(h->inbox + h->arrived * HEADER, p->header, HEADER);
    h->lengths[h->arrived++] = p->length ? p->length : WHOLE;
    drop(w, packet);
    if (!w->costs.naps)
        look(w, number, now);
    else if (!h->woken) {
        h->woken = true;
        schedule(w, fmax(now, h->busy) + (h->server ? SERVER_NAP : stream_nap(stream_of(h))), number, WAKE);
    }
}
