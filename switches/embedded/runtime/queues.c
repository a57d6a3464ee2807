// One egress queue a port: its depth, its rate, the delay of the link behind it, and whose turn it is.
#include "runtime.h"
#include <stdlib.h>

#define DEFAULT_DEPTH 64  // simple_switch's default capacity of an egress queue
#define MAX_FLYING 4096   // packets on a delayed link
#define FIRST_ROOM 64
#define MOST_DEPTH (1u << 20)
#define MOST_RATE 1000000000u   // packets a second
#define MOST_BANDWIDTH 1000000000000u  // bits a second
#define MOST_DELAY 60000000u    // microseconds
#define TURN_CREDIT 4096  // packets through egress in one turn of the event loop, beyond those that ingress has sent in it

// The ring holds a port's queue and, before it, the link: `flying` packets that have left the queue and are delayed.
// last_ns: when the newest leaves the queue. timed: the packets in the ring have times to wait for.
struct queue {
    struct waiting *ring;
    unsigned first, count, flying, room, depth;
    bool timed, listed;
    uint64_t gap_ns, delay_ns, last_ns, bandwidth;
};

static struct queue queues[MAX_PORTS];
static uint16_t active[MAX_PORTS];  // the listed queues, each once: all that are not empty are among them
static unsigned active_count;
static unsigned credit = TURN_CREDIT;
static bool draining;

void queues_init(void) {
    for (unsigned port = 0; port < MAX_PORTS; port++) queues[port].depth = DEFAULT_DEPTH;
}

void queues_turn(void) { credit = TURN_CREDIT; }

unsigned queue_length(unsigned port) { return queues[port].count; }

static struct waiting *at(const struct queue *q, unsigned index) { return &q->ring[(q->first + index) % q->room]; }

// packets that wait in a queue, without those that are on the delayed link behind it
static unsigned queued(struct queue *q, uint64_t now) {
    while (q->delay_ns && q->flying < q->count && at(q, q->flying)->due_ns <= now + q->delay_ns) q->flying++;
    return q->count - q->flying;
}

static void grow(struct queue *q) {
    unsigned room = q->room ? 2 * q->room : FIRST_ROOM;
    struct waiting *ring = malloc(room * sizeof *ring);
    if (!ring) abort();
    for (unsigned i = 0; i < q->count; i++) ring[i] = *at(q, i);
    free(q->ring);
    q->ring = ring;
    q->first = 0;
    q->room = room;
}

void queue_put(unsigned port, struct held *packet, uint16_t rid) {
    struct queue *q = &queues[port];
    if (!port_exists(port)) return;
    uint64_t now = pipeline_now();
    unsigned ahead = queued(q, now);
    if (ahead >= q->depth || (q->delay_ns && q->flying >= MAX_FLYING)) {
        port_counts[port].queue_drops++;
        return;
    }
    if (q->count == q->room) grow(q);
    if (!q->count) q->timed = q->gap_ns || q->bandwidth || q->delay_ns;
    if (!q->listed) active[active_count++] = (uint16_t)port, q->listed = true;
    if (!draining) credit++;
    packet->references++;
    if (q->bandwidth) {  // it has left when its last bit has
        uint64_t bits = (packet->current_length > 0 ? (uint64_t)packet->current_length : 0) * 8;
        q->last_ns = (q->last_ns > now ? q->last_ns : now) + (uint64_t)((unsigned __int128)bits * 1000000000u / q->bandwidth);
    } else {  // as simple_switch: due one gap after the one before, so that the rate holds however late a wait ends
        q->last_ns = q->gap_ns && q->last_ns && q->last_ns + q->gap_ns > now ? q->last_ns + q->gap_ns : now;
    }
    *at(q, q->count++) = (struct waiting){packet, rid, (uint32_t)(now / 1000), ahead, q->last_ns + q->delay_ns};
}

// as many packets as wait in the queue now; true if any has gone
static bool drain_port(unsigned port) {
    struct queue *q = &queues[port];
    uint64_t now = q->timed ? pipeline_now() : 0;
    bool gone = false;
    for (unsigned n = q->count; n && credit && !port_blocked(port) && (!q->timed || at(q, 0)->due_ns <= now); n--) {
        uint8_t *out = port_buffer(port);
        if (!out) break;
        struct waiting w = *at(q, 0);
        q->first = (q->first + 1) % q->room;
        q->count--;
        if (q->flying) q->flying--;
        credit--;
        size_t length = pipeline_egress(port, &w, queued(q, now), out);
        packet_release(w.packet);
        if (length) disorder_send(port, out, length);
        gone = true;
    }
    return gone;
}

// A clone made at egress joins a queue while the queues are drained, so ports take turns until none has a packet to send.
bool queues_drain(void) {
    bool gone = true;
    draining = true;
    while (active_count && gone && credit) {
        gone = false;
        for (unsigned i = 0; i < active_count; i++) gone |= drain_port(active[i]);
        unsigned kept = 0;
        for (unsigned i = 0; i < active_count; i++) {
            struct queue *q = &queues[active[i]];
            q->listed = q->count > 0;
            if (q->listed) active[kept++] = active[i];
        }
        active_count = kept;
    }
    draining = false;
    return active_count && !credit;
}

int64_t queues_next_event(void) {
    int64_t soonest = -1;
    for (unsigned i = 0; i < active_count; i++) {
        const struct queue *q = &queues[active[i]];
        if (!q->timed || port_blocked(active[i])) continue;
        int64_t wait = (int64_t)(at(q, 0)->due_ns - pipeline_now());
        if (wait < 0) wait = 0;
        if (soonest < 0 || wait < soonest) soonest = wait;
    }
    return soonest;
}

// What is on the link, or will be, takes the new delay. Without one it is due at once.
static void set_delay(struct queue *q, uint64_t delay_ns) {
    for (unsigned i = 0; i < q->count; i++) at(q, i)->due_ns += delay_ns - q->delay_ns;
    q->delay_ns = delay_ns;
    if (delay_ns) q->timed = true;
}

static void set_rate(struct queue *q, uint64_t rate) {
    q->gap_ns = rate ? 1000000000u / rate : 0;
    if (rate) q->timed = true;
}

// --- commands: a value, for one port or for all

// false, with the reason, if the words make no sense; else the value and the ports that it is for
static bool setting(int argc, char **argv, uint64_t most, uint64_t *value, uint64_t *first, uint64_t *last, struct reply *reply) {
    *first = 0, *last = MAX_PORTS - 1;
    if (!parse_uint(argv[1], most, value)) return fail(reply, "%s is not possible here", argv[1]), false;
    if (argc == 2) return true;
    if (!parse_uint(argv[2], MAX_PORTS - 2, first)) return fail(reply, "%s is not a port", argv[2]), false;
    *last = *first;
    return true;
}

static void depth(int argc, char **argv, struct reply *reply) {
    uint64_t value, first, last;
    if (!setting(argc, argv, MOST_DEPTH, &value, &first, &last, reply)) return;
    for (uint64_t p = first; p <= last; p++) queues[p].depth = (unsigned)value;  // as simple_switch: what waits stays
}

static void rate(int argc, char **argv, struct reply *reply) {
    uint64_t value, first, last;
    if (!setting(argc, argv, MOST_RATE, &value, &first, &last, reply)) return;
    for (uint64_t p = first; p <= last; p++) set_rate(&queues[p], value);
}

static void bandwidth(int argc, char **argv, struct reply *reply) {
    uint64_t value, first, last;
    if (!setting(argc, argv, MOST_BANDWIDTH, &value, &first, &last, reply)) return;
    for (uint64_t p = first; p <= last; p++) {
        queues[p].bandwidth = value;
        if (value) queues[p].timed = true;
    }
}

static void delay(int argc, char **argv, struct reply *reply) {
    uint64_t value, first, last;
    if (!setting(argc, argv, MOST_DELAY, &value, &first, &last, reply)) return;
    for (uint64_t p = first; p <= last; p++) set_delay(&queues[p], value * 1000);
}

const struct command queue_commands[] = {
    {"set_queue_depth", 2, 3, depth, "PACKETS [PORT]"},
    {"set_queue_rate", 2, 3, rate, "PACKETS_PER_SECOND [PORT] (0: no limit)"},
    {"set_queue_bandwidth", 2, 3, bandwidth, "BITS_PER_SECOND [PORT] (0: no limit)"},
    {"set_queue_delay", 2, 3, delay, "MICROSECONDS [PORT]"},
    {0},
};
