/* Setting up a simulated network, and letting everything happen. What a plan says of links, jobs and trees is set from outside. */
#include "inside.h"

#define LANES 2          /* integers of a vector over RoCE, where lengths tell messages with vectors from those without */
#define LONGEST_SHORT 40 /* bytes, at least, of what connects a queue pair */

World *world_new(int32_t workers, int32_t switches, int32_t servers, int32_t links, int32_t jobs, int32_t trees) {
    World *w = calloc(1, sizeof *w);
    *w = (World){.workers = workers, .switches = switches, .servers = servers, .links = links, .jobs_count = jobs, .free = -1, .stepped = -1};
    w->trees_count = trees;
    int64_t nodes = (int64_t)workers + switches + servers;
    w->hosts = calloc(workers + servers, sizeof *w->hosts);
    w->busy = calloc(switches, sizeof *w->busy);
    w->lines = calloc(2 * links, sizeof *w->lines);
    w->jobs = calloc(jobs, sizeof *w->jobs);
    w->branches = calloc(trees * nodes, sizeof *w->branches);
    w->children = calloc(trees * nodes, sizeof *w->children);
    w->happened = calloc((int64_t)switches * jobs * ATP_EVENTS, sizeof *w->happened);
    for (int32_t i = 0; i < 2 * links; i++)
        w->lines[i].head = -1;
    for (int64_t i = 0; i < trees * nodes; i++)
        w->branches[i] = (Branch){.above = -1, .level = TRANSIT};
    return w;
}

void world_room(World *w, int32_t cells, int32_t pairs, int32_t aggregators, int32_t sums, int32_t layers) {
    w->cells_count = cells;
    w->pairs_count = pairs;
    w->aggregators_count = aggregators;
    w->sums_count = sums;
    w->cells = calloc((int64_t)w->switches * cells + 1, sizeof *w->cells);
    w->pairs = calloc(2 * (int64_t)(w->workers + w->switches) * pairs + 1, sizeof *w->pairs);
    w->aggregators = calloc((int64_t)w->switches * aggregators + 1, sizeof *w->aggregators);
    w->spans = calloc((int64_t)w->workers * sums + 1, sizeof *w->spans);
    w->chunks = calloc(layers, sizeof *w->chunks);
    for (int64_t i = 0; i < (int64_t)w->switches * cells; i++)
        w->cells[i] = (Cell){.chunk = -1, .asker = -1};
}

void world_free(World *w) {
    for (int32_t i = 0; i < w->workers + w->servers; i++) {
        Host *h = &w->hosts[i];
        if (h->rdma)
            rdma_free(h->rdma);
        else if (h->switchml)
            switchml_free(h->switchml);
        if (h->atp)
            atp_worker_free(h->atp);
        if (h->server) {
            merger_free(h->server->merger);
            atp_server_free(h->server);
        }
        free(h->memory);
        free(h->inbox);
        free(h->lengths);
    }
    void *held[] = {w->hosts, w->busy, w->lines, w->jobs, w->branches, w->children, w->cells, w->pairs, w->aggregators, w->happened,
                    w->spans, w->chunks, w->packets, w->events.events, w};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        free(held[i]);
}

/* What a host sends from: so many headers. */
static Datagrams memory_of(Host *h, int64_t rows) {
    h->memory = calloc(rows, HEADER);
    return (Datagrams){.first = h->memory, .stride = HEADER, .count = rows};
}

/* The core of a worker over RoCE, whose interface makes packets of what it writes. */
static SwitchMLRdma *writer_of(Host *h, const SimulatedJob *its, int32_t recovery) {
    int32_t pairs = its->slots / its->message, rows = pairs * (1 + 2 * its->message);
    int32_t blocks = its->message < SWITCHML_BLOCKS ? its->message : SWITCHML_BLOCKS;
    int32_t vectors = LANES * sizeof(uint32_t) * its->message, message = sizeof(SwitchmlHeader) + vectors;
    Datagrams messages = {.stride = SWITCHML_BLOCKS + message, .count = 2 * pairs};
    Datagrams works = {.stride = sizeof(RoceWork) + (vectors < LONGEST_SHORT ? LONGEST_SHORT : vectors), .count = rows};
    int64_t behind = SWITCHML_BLOCKS + messages.count * messages.stride, end = behind + works.count * works.stride;
    h->memory = calloc(1, end + (rows + pairs) * sizeof(uint32_t));
    messages.first = h->memory + SWITCHML_BLOCKS - (its->message > 1 ? blocks : 0); /* so that headers are aligned behind exponents */
    works.first = h->memory + behind;
    works.lengths = (uint32_t *)(works.first + works.count * works.stride);
    SwitchMLRdma *made = rdma_new(pairs, its->message, LANES, recovery, &messages, message, &works);
    rdma_use_interface(made, works.lengths + rows, 0); /* the numbers of its ends tell nobody anything */
    return made;
}

/* Set up a worker, whose trees are there. */
void world_worker(World *w, int32_t number, int32_t job, int32_t recovery, int32_t control, bool exponents) {
    Host *h = &w->hosts[number];
    const SimulatedJob *its = &w->jobs[job];
    *h = (Host){.job = job, .node = number, .tree = its->tree, .timer_at = INFINITY, .exponents = exponents};
    int32_t rank = number - its->first, levels = 0;
    Datagrams packets;
    if (!its->atp) {
        const Branch *b = branch(w, its->tree, number);
        for (int32_t node = b->above; node >= 0; node = branch(w, its->tree, node)->above)
            levels++;
        if (its->message)
            h->rdma = writer_of(h, its, recovery);
        else
            packets = memory_of(h, 2 * (int64_t)its->slots);
        h->switchml = h->rdma ? &h->rdma->switchml : switchml_new(its->slots, 0, recovery, &packets, WHOLE);
        switchml_join(h->switchml, job, rank, 1, b->child, its->size, levels > 1);
        if (h->rdma)
            rdma_join(h->rdma, 0, 0, 0, 0);
        return;
    }
    packets = memory_of(h, 2 * (int64_t)its->slots);
    h->atp = atp_worker_new(its->slots, its->servers, 0, recovery, &packets, WHOLE);
    for (int32_t i = 0; i < its->servers; i++) {
        const Merger *m = w->hosts[w->workers + its->first_server + i].server->merger;
        const Member *me = &m->members[rank];
        h->atp->servers[i] = (AtPath){
            .zero = me->local ? 0 : 1u << me->number, .one = 1u << me->bit1, .edge = me->local ? EDGE_SWITCH : 0,
        };
    }
    atp_worker_join(h->atp, job, rank, 1, its->size, w->aggregators_count);
    window_init(&h->atp->window, its->slots, control);
}

/* Set up a server in a rack; what workers are to it is set from outside, and then `merger_join`. */
void world_server(World *w, int32_t number, int32_t job, int32_t rack) {
    Host *h = &w->hosts[w->workers + number];
    const SimulatedJob *its = &w->jobs[job];
    int64_t results = 2 * (int64_t)its->slots, room = 1 << 16;
    *h = (Host){.job = job, .node = w->workers + w->switches + number, .timer_at = INFINITY};
    h->tree = its->tree + number - its->first_server;
    Datagrams packets = memory_of(h, results + room);
    Datagrams statuses = {.first = h->memory + results * HEADER, .stride = HEADER, .count = room};
    packets.count = results;
    Merger *m = merger_new(its->slots, its->size, 0, w->aggregators_count, &packets, WHOLE);
    h->server = atp_server_new(m, w->switches, rack, &statuses, results);
}

/* A worker comes to its next sum at this time. */
void world_come(World *w, int32_t worker, double when) {
    schedule(w, when, worker, BEGIN);
}

/* Let everything happen until a worker waits for its next sums, up to so many events in all; how many have. */
int64_t world_run(World *w, int64_t most) {
    while (w->events.count && w->happenings < most && w->stepped < 0) {
        Event event = heap_pop(&w->events);
        int32_t number = event.what / 4;
        const Packet *p = event.what % 4 == PACKET ? &w->packets[number] : NULL;
        w->happenings++;
        if (w->events.count && w->events.events[0].what % 4 == PACKET)
            __builtin_prefetch(&w->packets[w->events.events[0].what / 4]);
        if (event.what % 4 == BEGIN)
            begin_sum(w, number, event.time);
        else if (event.what % 4 == WAKE)
            look(w, number, event.time);
        else if (event.what % 4 == TIMER)
            ring(w, number, event.time);
        else if (!is_due(w, number, event.time))
            w->happenings--;
        else if (!arrives(w, number))
            drop(w, number);
        else if (p->node < w->workers)
            arrive(w, p->node, number, event.time);
        else if (p->node >= w->workers + w->switches)
            arrive(w, p->node - w->switches, number, event.time);
        else if (w->jobs[p->job].atp)
            atp_switch(w, event.time, number);
        else
            switchml_switch(w, event.time, number);
    }
    return w->happenings;
}
