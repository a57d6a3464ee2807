// The switch without interfaces, for tests and labs: records on standard input and output, each
//     kind or port (2 bytes, big-endian), length (4 bytes, big-endian), bytes
// In: a packet for a port, or a command (COMMAND). Out: the packets sent, or the answer (ANSWER, REFUSAL); then END.
// In: CLOCK, with the time in nanoseconds (8 bytes), which stands still from then on. Out: what leaves the queues by then, and END.
// From the first CLOCK on, each END comes after NEXT, the time at which the queues have something to send again; all ones: none.
// Deterministic: a record is handled to its end, resubmissions and recirculations included, before the next is read.
// Many records may be written at once; the answers are flushed when no further record is at hand.
// As a library (library_open, library_add_port, library_batch) it takes the same records from memory, and answers in memory.
#include "runtime.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define COMMAND 0xfff0u
#define ANSWER 0xfff1u
#define REFUSAL 0xfff2u
#define END 0xfff3u
#define CLOCK 0xfff4u
#define NEXT 0xfff5u
#define HEAD 6
#define MOST_DATA (1u << 20)
#define MOST_COPIES 4096  // that one packet may cause unless --most-copies says otherwise: a record must come to its end

static uint8_t input[1 << 16];
static size_t input_first, input_end;

// false at the end of the input
static bool take(uint8_t *to, size_t length) {
    while (length) {
        if (input_first == input_end) {
            fflush(stdout);
            ssize_t n = read(STDIN_FILENO, input, sizeof input);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) return false;
            input_first = 0;
            input_end = (size_t)n;
        }
        size_t part = input_end - input_first < length ? input_end - input_first : length;
        memcpy(to, input + input_first, part);
        input_first += part;
        to += part;
        length -= part;
    }
    return true;
}

static bool in_memory;
static uint8_t *answers;
static size_t answers_length, answers_room;

static void write_bytes(const void *data, size_t length) {
    if (!in_memory) {
        fwrite(data, 1, length, stdout);
        return;
    }
    while (answers_length + length > answers_room) {
        answers_room = answers_room ? 2 * answers_room : 1 << 16;
        answers = realloc(answers, answers_room);
        if (!answers) abort();
    }
    memcpy(answers + answers_length, data, length);
    answers_length += length;
}

static void write_record(unsigned kind, const void *data, size_t length) {
    uint8_t head[HEAD];
    store16(head, kind);
    store32(head + 2, length);
    write_bytes(head, sizeof head);
    if (length) write_bytes(data, length);
}

static void write_packet(unsigned port, const uint8_t *data, size_t length) { write_record(port, data, length); }

static void command(char *line) {
    struct reply reply = {0};
    control_execute(line, &reply);
    write_record(reply.failed ? REFUSAL : ANSWER, reply.text, reply.length);
    free(reply.text);
}

static void go_on(void) {
    for (bool more = true; more;) {
        queues_turn();
        disorder_deliver();
        more = pipeline_again();
        more |= queues_drain();
        more |= disorder_next_event() == 0;  // copies that come at once
    }
}

static void packet(unsigned port, const uint8_t *data, size_t length) {
    if (!port_exists(port)) return;
    if (length > MAX_PACKET) {
        port_counts[port].oversize++;
        return;
    }
    port_counts[port].received++;
    queues_turn();
    disorder_receive(port, data, length);
    go_on();
}

static void write_next(void) {
    uint8_t next[8];
    int64_t wait = next_event();
    uint64_t due = wait < 0 ? UINT64_MAX : pipeline_now() + (uint64_t)wait;
    store32(next, due >> 32);
    store32(next + 4, due & UINT32_MAX);
    write_record(NEXT, next, sizeof next);
}

static bool clocked;  // the time has been set

// data has room for a byte behind it
static void handle(unsigned kind, uint8_t *data, size_t length) {
    data[length] = 0;
    if (kind == COMMAND) command((char *)data);
    else if (kind == CLOCK && length == 8) pipeline_set_clock(load32(data) << 32 | load32(data + 4)), clocked = true, go_on();
    else packet(kind, data, length);
    if (clocked) write_next();
    write_record(END, NULL, 0);
}

int offline_run(unsigned ports, bool default_bound) {
    static uint8_t data[MOST_DATA];
    uint8_t head[HEAD];
    if (default_bound) copies_bound(MOST_COPIES);
    for (unsigned port = 0; port < ports; port++) port_add_virtual(port, write_packet);
    while (take(head, sizeof head)) {
        size_t length = load32(head + 2);
        if (length >= sizeof data || !take(data, length)) return 1;
        handle((unsigned)load16(head), data, length);
    }
    fflush(stdout);
    return 0;
}

__attribute__((visibility("default"))) void library_open(uint64_t seed) {
    in_memory = true;
    switch_init(seed);
    copies_bound(MOST_COPIES);
}

__attribute__((visibility("default"))) void library_add_port(unsigned port) { port_add_virtual(port, write_packet); }

// the answers to whole records, and their length; they are there until the next call
__attribute__((visibility("default"))) const uint8_t *library_batch(const uint8_t *records, size_t length, size_t *answered) {
    static uint8_t data[MOST_DATA];
    answers_length = 0;
    while (length >= HEAD) {
        size_t own = load32(records + 2);
        if (own >= sizeof data || own > length - HEAD) break;
        memcpy(data, records + HEAD, own);
        handle((unsigned)load16(records), data, own);
        records += HEAD + own;
        length -= HEAD + own;
    }
    *answered = answers_length;
    return answers;
}
