// simple_switch's packet path: parse, ingress, end-of-ingress decisions, egress queues, egress, deparse.
// The order of decisions and the metadata of copies follow simple_switch.cpp (ingress_thread, egress_thread).
#include "runtime.h"
#include <stdlib.h>
#include <time.h>

#define DEFAULT_DEPTH 64     // simple_switch's default capacity of an egress queue
#define MAX_FLYING 4096      // packets on a delayed link
#define MAX_AGAIN 1024       // packets that wait to enter ingress once more

void functions_init(uint64_t seed);

struct intents intents;
uint32_t arrived_length;
int64_t current_length;

// headers and metadata as ingress (or egress, for a clone) left them, with the bytes behind the headers;
// shared by the copies of a multicast
struct held { unsigned references; uint32_t arrived_length; int64_t current_length; size_t length, truncate_to; uint8_t *bytes; uint8_t phv[]; };
struct waiting { struct held *packet; uint16_t rid; uint32_t enqueued_us, depth; uint64_t due_ns; };
// the ring holds a port's queue and, before it, the link: `flying` packets that have left the queue and are delayed.
// last_ns: when the newest leaves the queue
struct queue { struct waiting *ring; unsigned first, count, flying, depth, room; uint64_t gap_ns, delay_ns, last_ns; };
struct again { uint8_t *bytes; size_t length; enum instance_type type; int field_list; uint8_t *phv; };

static struct queue queues[MAX_PORTS];
static uint16_t active[2 * MAX_PORTS];  // ports whose queue is not empty, in the order in which they came to be so
static unsigned active_count;
static struct again again[MAX_AGAIN];
static unsigned again_first, again_count;
static uint64_t again_drops;
static struct timespec started;
static uint8_t *saved_phv;
static struct held *spare;  // one freed packet, kept for the next
static uint8_t egress_payload[MAX_PACKET], scratch[2 * MAX_PACKET];

uint64_t pipeline_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)(now.tv_sec - started.tv_sec) * 1000000000u + (uint64_t)(now.tv_nsec - started.tv_nsec);
}

static void set_depth(struct queue *q, unsigned depth) {
    unsigned room = depth + (q->delay_ns ? MAX_FLYING : 0), kept = 0;
    struct waiting *ring = calloc(room ? room : 1, sizeof *ring);
    if (!ring) abort();
    for (; q->count && kept < room; kept++, q->count--) ring[kept] = q->ring[q->first++ % q->room];
    free(q->ring);
    *q = (struct queue){ring, 0, kept, q->flying < kept ? q->flying : kept, depth, room, q->gap_ns, q->delay_ns, q->last_ns};
}

// packets that wait in a queue, without those that are on the delayed link behind it
static unsigned queued(struct queue *q, uint64_t now) {
    while (q->delay_ns && q->flying < q->count && q->ring[(q->first + q->flying) % q->room].due_ns <= now + q->delay_ns) q->flying++;
    return q->count - q->flying;
}

void pipeline_init(uint64_t seed) {
    clock_gettime(CLOCK_MONOTONIC, &started);
    functions_init(seed);
    saved_phv = malloc(program_phv_size);
    if (!saved_phv) abort();
    for (unsigned port = 0; port < MAX_PORTS; port++) set_depth(&queues[port], DEFAULT_DEPTH);
}

static struct held *hold(const uint8_t *payload, size_t length) {
    struct held *packet = spare;
    spare = NULL;
    if (!packet) {
        packet = malloc(sizeof *packet + program_phv_size + MAX_PACKET);
        if (!packet) abort();
    }
    packet->references = 1;
    packet->length = length;
    packet->truncate_to = SIZE_MAX;
    packet->arrived_length = arrived_length;
    packet->current_length = current_length;
    packet->bytes = packet->phv + program_phv_size;
    memcpy(packet->phv, program_phv, program_phv_size);
    memcpy(packet->bytes, payload, length);
    return packet;
}

static void release(struct held *packet) {
    if (--packet->references) return;
    if (spare) free(packet); else spare = packet;
}

static void enqueue(unsigned port, struct held *packet, uint16_t rid) {
    struct queue *q = &queues[port];
    if (!port_exists(port)) return;
    uint64_t now = pipeline_now();
    unsigned ahead = queued(q, now);
    if (ahead >= q->depth || q->count >= q->room) {
        port_counts[port].queue_drops++;
        return;
    }
    if (!q->count) active[active_count++] = (uint16_t)port;
    packet->references++;
    // as simple_switch: due one gap after the one before, so that the rate holds however late a wait ends
    q->last_ns = q->gap_ns && q->last_ns && q->last_ns + q->gap_ns > now ? q->last_ns + q->gap_ns : now;
    q->ring[(q->first + q->count) % q->room] = (struct waiting){packet, rid, (uint32_t)(now / 1000), ahead, q->last_ns + q->delay_ns};
    q->count++;
}

static void multicast(unsigned group, struct held *packet) {
    const struct copy *copies;
    unsigned n = multicast_copies(group, &copies);
    for (unsigned i = 0; i < n; i++) enqueue(copies[i].port, packet, copies[i].rid);
}

static void enter_again(enum instance_type type, int field_list, const uint8_t *bytes, size_t length) {
    if (again_count == MAX_AGAIN) {
        again_drops++;
        return;
    }
    struct again *a = &again[(again_first + again_count++) % MAX_AGAIN];
    *a = (struct again){malloc(length + 1), length, type, field_list, malloc(program_phv_size)};
    if (!a->bytes || !a->phv) abort();
    memcpy(a->bytes, bytes, length);
    memcpy(a->phv, program_phv, program_phv_size);
}

static void send_to_mirror(const struct mirror *mirror, const uint8_t *payload, size_t length) {
    struct held *copy = hold(payload, length);
    if (mirror->to_group) multicast(mirror->group, copy);
    if (mirror->to_port) enqueue(mirror->port, copy, program_standard->egress_rid);
    release(copy);
}

static void reset(unsigned port, size_t length, enum instance_type type) {
    memset(program_phv, 0, program_phv_size);
    program_standard->ingress_port = (uint16_t)port;
    program_standard->packet_length = (uint32_t)length;
    program_standard->instance_type = type;
}

// a clone at ingress is the packet as it arrived, parsed afresh
static void clone_ingress(unsigned port, const uint8_t *data, size_t length, struct clone_intent clone) {
    const struct mirror *mirror = mirror_session(clone.session & 0x7fff);
    if (!mirror) return;
    int64_t kept_length = current_length;
    current_length = (int64_t)length;
    memcpy(saved_phv, program_phv, program_phv_size);
    reset(port, length, INGRESS_CLONE);
    size_t taken = program_parse(data, length);
    program_reset_metadata();
    program_standard->instance_type = INGRESS_CLONE;
    program_standard->packet_length = (uint32_t)length;
    if (clone.field_list >= 0) program_keep_fields(clone.field_list, saved_phv);
    send_to_mirror(mirror, data + taken, length - taken);
    current_length = kept_length;
    memcpy(program_phv, saved_phv, program_phv_size);
}

static void ingress(unsigned port, const uint8_t *data, size_t length) {
    intents = (struct intents){0};
    arrived_length = (uint32_t)length;
    current_length = (int64_t)length;
    size_t taken = program_parse(data, length);
    program_ingress(data + taken, length - taken);

    if (intents.clone.asked) clone_ingress(port, data, length, intents.clone);
    if (intents.resubmit.asked) {
        enter_again(RESUBMITTED, intents.resubmit.field_list, data, length);
        return;
    }
    size_t rest = length - taken;
    if (program_standard->mcast_grp) {
        program_standard->instance_type = REPLICATED;
        struct held *packet = hold(data + taken, rest);
        multicast(program_standard->mcast_grp, packet);
        release(packet);
    } else if (program_standard->egress_spec != DROP_PORT) {
        program_standard->instance_type = NORMAL;
        struct held *packet = hold(data + taken, rest);
        if (intents.truncate_to) packet->truncate_to = intents.truncate_to;  // of copies, simple_switch forgets it
        enqueue(program_standard->egress_spec, packet, program_standard->egress_rid);
        release(packet);
    }
}

void pipeline_receive(unsigned port, const uint8_t *data, size_t length) {
    reset(port, length, NORMAL);
    program_standard->ingress_global_timestamp = pipeline_now() / 1000;
    ingress(port, data, length);
    pipeline_drain();
}

bool pipeline_again(void) {
    for (unsigned n = again_count; n; n--) {
        struct again a = again[again_first];
        again_first = (again_first + 1) % MAX_AGAIN;
        again_count--;
        reset(0, a.length, a.type);
        program_keep_fields(a.field_list, a.phv);
        ingress(program_standard->ingress_port, a.bytes, a.length);
        free(a.bytes);
        free(a.phv);
        pipeline_drain();
    }
    return again_count > 0;
}

// one packet through egress; its bytes go to `out` and their number is returned, 0 if it is dropped
static size_t egress(unsigned port, const struct waiting *w, unsigned depth, uint8_t *out) {
    struct standard_metadata_t *standard = program_standard;
    uint64_t now = pipeline_now() / 1000;
    memcpy(program_phv, w->packet->phv, program_phv_size);
    standard->egress_port = (uint16_t)port;
    standard->egress_spec = 0;  // simple_switch writes drop_port + 1 into nine bits
    standard->egress_rid = w->rid;
    standard->enq_timestamp = w->enqueued_us;
    standard->enq_qdepth = w->depth;
    standard->deq_timedelta = (uint32_t)(now - w->enqueued_us);
    standard->deq_qdepth = depth;
    standard->egress_global_timestamp = now;
    arrived_length = w->packet->arrived_length;
    current_length = w->packet->current_length;
    standard->packet_length = (uint32_t)current_length;
    intents = (struct intents){0};
    size_t rest = w->packet->length;
    memcpy(egress_payload, w->packet->bytes, rest);
    program_egress(egress_payload, rest);

    if (intents.clone.asked) {
        const struct mirror *mirror = mirror_session(intents.clone.session & 0x7fff);
        if (mirror) {
            uint32_t length = standard->packet_length;
            memcpy(saved_phv, program_phv, program_phv_size);
            program_reset_metadata();
            standard->instance_type = EGRESS_CLONE;
            standard->packet_length = length;
            if (intents.clone.field_list >= 0) program_keep_fields(intents.clone.field_list, saved_phv);
            send_to_mirror(mirror, egress_payload, rest);
            memcpy(program_phv, saved_phv, program_phv_size);
        }
    }
    if (standard->egress_spec == DROP_PORT) return 0;
    program_compute_checksums();
    size_t length = program_deparse(out);
    if (length + rest > MAX_PACKET) rest = length < MAX_PACKET ? MAX_PACKET - length : 0;
    memcpy(out + length, egress_payload, rest);
    length += rest;
    if (w->packet->truncate_to < length) length = w->packet->truncate_to;
    if (intents.truncate_to && intents.truncate_to < length) length = intents.truncate_to;
    if (intents.recirculate.asked) {
        enter_again(RECIRCULATED, intents.recirculate.field_list, out, length);
        return 0;
    }
    return length;
}

static bool may_send(unsigned port, uint64_t now) {
    const struct queue *q = &queues[port];
    return q->count && !port_blocked(port) && (!now || now >= q->ring[q->first].due_ns);
}

static void drain_port(unsigned port) {
    struct queue *q = &queues[port];
    uint64_t now = q->gap_ns || q->delay_ns ? pipeline_now() : 0;
    while (may_send(port, now)) {
        uint8_t *out = port_buffer(port);
        if (!out) return;
        struct waiting w = q->ring[q->first];
        q->first = (q->first + 1) % q->room;
        q->count--;
        if (q->flying) q->flying--;
        size_t length = egress(port, &w, queued(q, now), scratch);
        release(w.packet);
        if (length) {
            memcpy(out, scratch, length);
            port_send(port, length);
        }
    }
}

void pipeline_drain(void) {
    unsigned kept = 0;
    for (unsigned i = 0; i < active_count; i++) {  // an egress clone may make another port active, at the end
        uint16_t port = active[i];
        drain_port(port);
        if (queues[port].count) active[kept++] = port;
    }
    active_count = kept;
}

int64_t pipeline_next_event(void) {
    int64_t soonest = -1;
    for (unsigned i = 0; i < active_count; i++) {
        const struct queue *q = &queues[active[i]];
        if (!(q->gap_ns || q->delay_ns) || port_blocked(active[i])) continue;
        int64_t wait = (int64_t)(q->ring[q->first].due_ns - pipeline_now());
        if (wait < 0) wait = 0;
        if (soonest < 0 || wait < soonest) soonest = wait;
    }
    return soonest;
}

enum setting { DEPTH, RATE, DELAY };

// set_queue_depth N [PORT]; set_queue_rate PACKETS_PER_SECOND [PORT] (0: no limit); set_queue_delay MICROSECONDS [PORT]
static void set_queue(int argc, char **argv, struct reply *reply, enum setting what) {
    uint64_t value, port;
    if (!parse_uint(argv[1], what == RATE ? 1000000000u : 1u << 20, &value)) return fail(reply, "%s is not possible here", argv[1]);
    if (argc == 3 && !parse_uint(argv[2], MAX_PORTS - 2, &port)) return fail(reply, "%s is not a port", argv[2]);
    for (unsigned p = argc == 3 ? (unsigned)port : 0; p < (argc == 3 ? port + 1 : MAX_PORTS); p++) {
        if (what == DELAY) {
            queues[p].delay_ns = value * 1000;
            set_depth(&queues[p], queues[p].depth);
        } else if (what == DEPTH) {
            while (queues[p].count > value) release(queues[p].ring[(queues[p].first + --queues[p].count) % queues[p].room].packet);
            set_depth(&queues[p], (unsigned)value);
        } else {
            queues[p].gap_ns = value ? 1000000000u / value : 0;
        }
    }
}

bool pipeline_command(int argc, char **argv, struct reply *reply) {
    if (!strcmp(argv[0], "set_queue_depth") && (argc == 2 || argc == 3)) {
        set_queue(argc, argv, reply, DEPTH);
    } else if (!strcmp(argv[0], "set_queue_rate") && (argc == 2 || argc == 3)) {
        set_queue(argc, argv, reply, RATE);
    } else if (!strcmp(argv[0], "set_queue_delay") && (argc == 2 || argc == 3)) {
        set_queue(argc, argv, reply, DELAY);
    } else if (!strcmp(argv[0], "get_time_elapsed") && argc == 1) {
        say(reply, "%llu\n", (unsigned long long)(pipeline_now() / 1000));
    } else if (!strcmp(argv[0], "show_ports") && argc == 1) {
        for (unsigned port = 0; port < MAX_PORTS; port++) {
            if (!port_exists(port)) continue;
            port_read_statistics(port);
            const struct port_counts *c = &port_counts[port];
            say(reply, "port=%u interface=%s received=%llu sent=%llu queue_drops=%llu send_errors=%llu ring_drops=%llu oversize=%llu queued=%u\n",
                port, port_interface(port), (unsigned long long)c->received, (unsigned long long)c->sent,
                (unsigned long long)c->queue_drops, (unsigned long long)c->send_errors, (unsigned long long)c->ring_drops,
                (unsigned long long)c->oversize, queues[port].count);
        }
    } else {
        return false;
    }
    return true;
}
