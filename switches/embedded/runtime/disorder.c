// What a link does to packets other than losing them: some are held back, so that others overtake them, some come twice, and each is
// delayed by a random jitter. A hash of (seed, packet number) decides, as it does for losses (p4/include/loss.p4). A packet that waits
// here is on the link: it has been counted as received, or has left its queue.
#include "runtime.h"
#include <stdlib.h>

#define MOST_WAITING 65536     // on all links of the switch; packets beyond are not disturbed
#define MOST_MICROSECONDS 60000000u
#define AGAIN_NS 100000u       // until a port is tried again that takes no packets
enum { INTO, OUT_OF, DIRECTIONS };

struct link {
    bool on;
    uint32_t seed, number, reorder, duplicate;  // the latter two: probabilities times 2^32
    uint64_t hold_ns, jitter_ns, last_ns;       // last_ns: when the newest packet that is not held back comes
    uint64_t held, doubled;
};

struct late { uint64_t due_ns, order; uint8_t *bytes; uint32_t length; uint16_t port; uint8_t direction; };

static struct link links[DIRECTIONS][MAX_PORTS];
static struct late *waiting;  // a heap: none is due before the one at half its index
static unsigned waiting_count, waiting_room;
static uint64_t order;

static uint32_t mix(uint32_t x) {  // the finalizer of MurmurHash3
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

static bool before(const struct late *a, const struct late *b) {
    return a->due_ns < b->due_ns || (a->due_ns == b->due_ns && a->order < b->order);
}

static void push(struct late late) {
    if (waiting_count == waiting_room) {
        waiting_room = waiting_room ? 2 * waiting_room : 64;
        waiting = realloc(waiting, waiting_room * sizeof *waiting);
        if (!waiting) abort();
    }
    unsigned i = waiting_count++;
    for (; i && before(&late, &waiting[(i - 1) / 2]); i = (i - 1) / 2) waiting[i] = waiting[(i - 1) / 2];
    waiting[i] = late;
}

static struct late pop(void) {
    struct late first = waiting[0], last = waiting[--waiting_count];
    unsigned i = 0;
    for (unsigned child; (child = 2 * i + 1) < waiting_count; i = child) {
        if (child + 1 < waiting_count && before(&waiting[child + 1], &waiting[child])) child++;
        if (!before(&waiting[child], &last)) break;
        waiting[i] = waiting[child];
    }
    waiting[i] = last;
    return first;
}

static void keep(unsigned direction, unsigned port, const uint8_t *data, size_t length, uint64_t due_ns) {
    uint8_t *bytes = malloc(length ? length : 1);
    if (!bytes) abort();
    memcpy(bytes, data, length);
    push((struct late){due_ns, order++, bytes, (uint32_t)length, (uint16_t)port, (uint8_t)direction});
}

// whether the packet comes later; a copy may in any case
static bool disturb(unsigned direction, unsigned port, const uint8_t *data, size_t length) {
    struct link *l = &links[direction][port];
    uint64_t now = pipeline_now(), due = now;
    if (!l->on && l->last_ns > now) return keep(direction, port, data, length, l->last_ns), true;  // behind those with a jitter
    if (!l->on || waiting_count + 2 > MOST_WAITING) return false;
    uint32_t draw = mix(l->seed ^ mix(l->number++));
    if (l->jitter_ns) {
        due += (uint64_t)mix(draw ^ 0x5bd1e995u) * l->jitter_ns >> 32;
        if (due < l->last_ns) due = l->last_ns;
        l->last_ns = due;
    }
    if (mix(draw ^ 0x1b873593u) < l->duplicate) {
        l->doubled++;
        keep(direction, port, data, length, due + l->hold_ns);
    }
    if (draw < l->reorder) {
        l->held++;
        due += l->hold_ns;
    }
    if (due == now) return false;
    keep(direction, port, data, length, due);
    return true;
}

void disorder_receive(unsigned port, const uint8_t *data, size_t length) {
    if (!disturb(INTO, port, data, length)) pipeline_receive(port, data, length);
}

void disorder_send(unsigned port, const uint8_t *data, size_t length) {
    if (!disturb(OUT_OF, port, data, length)) port_send(port, length);
}

void disorder_deliver(void) {
    for (unsigned n = waiting_count; n && waiting_count && waiting[0].due_ns <= pipeline_now(); n--) {
        struct late late = pop();
        if (late.direction == INTO) {
            pipeline_receive(late.port, late.bytes, late.length);
        } else {
            uint8_t *out = port_buffer(late.port);
            if (!out) {  // behind what has waited as long, in the order in which they came
                late.due_ns = pipeline_now() + AGAIN_NS;
                push(late);
                continue;
            }
            memcpy(out, late.bytes, late.length);
            port_send(late.port, late.length);
        }
        free(late.bytes);
    }
}

void disorder_reset(void) {
    while (waiting_count) free(waiting[--waiting_count].bytes);
    memset(links, 0, sizeof links);
}

int64_t disorder_next_event(void) {
    if (!waiting_count) return -1;
    uint64_t now = pipeline_now();
    return waiting[0].due_ns <= now ? 0 : (int64_t)(waiting[0].due_ns - now);
}

// --- commands

static void set_disorder(int argc, char **argv, struct reply *reply) {
    static const uint64_t most[] = {DIRECTIONS - 1, MAX_PORTS - 2, UINT32_MAX, UINT32_MAX, UINT32_MAX, MOST_MICROSECONDS, MOST_MICROSECONDS};
    uint64_t value[sizeof most / sizeof *most];
    for (int i = 1; i < argc; i++)
        if (!parse_uint(argv[i], most[i - 1], &value[i - 1])) return fail(reply, "%s is not possible here", argv[i]);
    struct link *l = &links[value[0]][value[1]];
    *l = (struct link){value[3] || value[4] || value[6], (uint32_t)value[2], l->number, (uint32_t)value[3], (uint32_t)value[4],
                       value[5] * 1000, value[6] * 1000, l->last_ns, l->held, l->doubled};
}

static void show_disorder(int argc, char **argv, struct reply *reply) {
    (void)argc, (void)argv;
    for (unsigned port = 0; port < MAX_PORTS; port++)
        for (unsigned direction = 0; direction < DIRECTIONS; direction++) {
            const struct link *l = &links[direction][port];
            if (l->number || l->held || l->doubled)
                say(reply, "port=%u direction=%u packets=%u held=%llu doubled=%llu\n", port, direction, l->number,
                    (unsigned long long)l->held, (unsigned long long)l->doubled);
        }
    say(reply, "waiting=%u\n", waiting_count);
}

const struct command disorder_commands[] = {
    {"set_disorder", 8, 8, set_disorder, "DIRECTION PORT SEED REORDER DUPLICATE HOLD JITTER (0 into the switch, 1 out of it; times 2^32; microseconds)"},
    {"show_disorder", 1, 1, show_disorder, ""},
    {0},
};
