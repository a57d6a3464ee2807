// A packet's way through the switch: parse, ingress, queues, egress, deparse.
// The order of decisions and the metadata of copies follow simple_switch.cpp (ingress_thread, egress_thread).
#include "runtime.h"
#include <stdlib.h>
#include <unistd.h>
#include <time.h>

#define USUAL_PACKET 2048  // bytes kept for a packet that waits, unless it has more

void functions_init(uint64_t seed);

struct intents intents;
uint32_t arrived_length;
int64_t current_length;

struct again { uint8_t *bytes; size_t length; enum instance_type type; int field_list; uint8_t *phv; struct family *family; };

static struct again again[MAX_AGAIN];
static unsigned again_first, again_count;
static struct timespec started;
static struct family *family;  // of the packet being processed
static uint8_t *saved_phv;
static struct held *spare;  // one freed packet, kept for the next
static uint8_t egress_payload[MAX_PACKET], scratch[2 * MAX_PACKET];

static bool set;  // the time is what it was set to
static uint64_t set_ns;

void pipeline_set_clock(uint64_t ns) {
    set = true;
    set_ns = ns;
}

uint64_t pipeline_now(void) {
    if (set) return set_ns;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)(now.tv_sec - started.tv_sec) * 1000000000u + (uint64_t)(now.tv_nsec - started.tv_nsec);
}

void pipeline_init(uint64_t seed) {
    clock_gettime(CLOCK_MONOTONIC, &started);
    functions_init(seed);
    saved_phv = malloc(program_phv_size);
    if (!saved_phv) abort();
    queues_init();
}

static struct held *hold(const uint8_t *payload, size_t length) {
    struct held *packet = spare && spare->room >= length ? spare : NULL;
    if (packet) {
        spare = NULL;
    } else {
        size_t room = length > USUAL_PACKET ? MAX_PACKET : USUAL_PACKET;
        packet = malloc(sizeof *packet + program_phv_size + room);
        if (!packet) abort();
        packet->room = room;
    }
    packet->references = 1;
    packet->family = family_join(family);
    packet->length = length;
    packet->truncate_to = SIZE_MAX;
    packet->arrived_length = arrived_length;
    packet->current_length = current_length;
    packet->bytes = packet->phv + program_phv_size;
    memcpy(packet->phv, program_phv, program_phv_size);
    memcpy(packet->bytes, payload, length);
    return packet;
}

void packet_release(struct held *packet) {
    if (--packet->references) return;
    family_leave(packet->family);
    if (spare) free(packet); else spare = packet;
}

static void multicast(unsigned group, struct held *packet, bool cloned) {
    const struct copy *copies;
    unsigned n = multicast_copies(group, &copies);
    for (unsigned i = 0; i < n; i++)
        if (!cloned || family_may_copy(family)) queue_put(copies[i].port, packet, copies[i].rid);
}

static void enter_again(enum instance_type type, int field_list, const uint8_t *bytes, size_t length) {
    if (!family_may_copy(family)) return;
    if (again_count == MAX_AGAIN) return copies_count_input_drop();
    struct again *a = &again[(again_first + again_count++) % MAX_AGAIN];
    *a = (struct again){malloc(length + 1), length, type, field_list, malloc(program_phv_size), family_join(family)};
    if (!a->bytes || !a->phv) abort();
    memcpy(a->bytes, bytes, length);
    memcpy(a->phv, program_phv, program_phv_size);
}

static void send_to_mirror(const struct mirror *mirror, const uint8_t *payload, size_t length) {
    struct held *copy = hold(payload, length);
    if (mirror->to_group) multicast(mirror->group, copy, true);
    if (mirror->to_port && family_may_copy(family)) queue_put(mirror->port, copy, program_standard->egress_rid);
    packet_release(copy);
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
        multicast(program_standard->mcast_grp, packet, false);
        packet_release(packet);
    } else if (program_standard->egress_spec != DROP_PORT) {
        program_standard->instance_type = NORMAL;
        struct held *packet = hold(data + taken, rest);
        if (intents.truncate_to) packet->truncate_to = intents.truncate_to;  // of copies, simple_switch forgets it
        queue_put(program_standard->egress_spec, packet, program_standard->egress_rid);
        packet_release(packet);
    }
}

void pipeline_receive(unsigned port, const uint8_t *data, size_t length) {
    reset(port, length, NORMAL);
    program_standard->ingress_global_timestamp = pipeline_now() / 1000;
    family = family_found();
    trace_begin();
    ingress(port, data, length);
    family_leave(family);
    queues_drain();
}

bool pipeline_again(void) {
    for (unsigned n = again_count; n; n--) {
        struct again a = again[again_first];
        again_first = (again_first + 1) % MAX_AGAIN;
        again_count--;
        reset(0, a.length, a.type);
        program_keep_fields(a.field_list, a.phv);
        family = a.family;
        ingress(program_standard->ingress_port, a.bytes, a.length);
        family_leave(a.family);
        free(a.bytes);
        free(a.phv);
        queues_drain();
    }
    return again_count > 0;
}

// the size that the packet shall have: its own, unless it is truncated
static size_t truncated(size_t length, const struct held *packet) {
    if (packet->truncate_to < length) length = packet->truncate_to;
    if (intents.truncate_to && intents.truncate_to < length) length = intents.truncate_to;
    return length;
}

size_t pipeline_egress(unsigned port, const struct waiting *w, unsigned depth, uint8_t *out) {
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
    family = w->packet->family;
    arrived_length = w->packet->arrived_length;
    current_length = w->packet->current_length;
    standard->packet_length = (uint32_t)current_length;
    intents = (struct intents){0};
    size_t rest = w->packet->length;
    memcpy(egress_payload, w->packet->bytes, rest);
    trace_egress(port);
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
    size_t headers = program_deparse(scratch), length = truncated(headers + rest, w->packet);
    if (length > MAX_PACKET) {
        port_counts[port].oversize++;
        return 0;
    }
    if (headers > length) headers = length;
    memcpy(out, scratch, headers);
    memcpy(out + headers, egress_payload, length - headers);
    if (intents.recirculate.asked) {
        enter_again(RECIRCULATED, intents.recirculate.field_list, out, length);
        return 0;
    }
    return length;
}

static void time_elapsed(int argc, char **argv, struct reply *reply) {
    (void)argc, (void)argv;
    say(reply, "%llu\n", (unsigned long long)(pipeline_now() / 1000));
}

static void time_since_epoch(int argc, char **argv, struct reply *reply) {  // of the clock that simple_switch has: of 1970
    (void)argc, (void)argv;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    unsigned long long us = (unsigned long long)now.tv_sec * 1000000u + (unsigned long long)now.tv_nsec / 1000;
    say(reply, "%llu\n", set ? (unsigned long long)(set_ns / 1000) : us);
}

static void switch_info(int argc, char **argv, struct reply *reply) {
    (void)argc, (void)argv;
    say(reply, "switch  : embedded\nprogram : %s\nprocess : %ld\n", program_name, (long)getpid());
}

const struct command pipeline_commands[] = {
    {"get_time_elapsed", 1, 1, time_elapsed, ""},
    {"get_time_since_epoch", 1, 1, time_since_epoch, ""},
    {"switch_info", 1, 1, switch_info, ""},
    {0},
};
