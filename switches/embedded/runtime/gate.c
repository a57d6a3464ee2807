// A gate in front of the ports, for those who watch: `pause` closes it, `step` lets some packets in, `resume` opens it.
// Packets that wait stay in the rings of their ports, as they do before a busy switch. The gate opens, too, when the client that
// closed it is gone, however it ended.
#include "runtime.h"

#define SHOWN 512u  // bytes of the last packet that show_last prints

bool gate_closed;
static int holder = -1;
static uint64_t admitted, allowed, pauses;
static struct { unsigned port; size_t length; uint8_t bytes[SHOWN]; } last;

bool gate_take(unsigned port, const uint8_t *data, size_t length) {
    if (admitted == allowed) return false;
    admitted++;
    last.port = port;
    last.length = length;
    memcpy(last.bytes, data, length < SHOWN ? length : SHOWN);
    return true;
}

static void pause_ports(int argc, char **argv, struct reply *reply) {
    (void)argc, (void)argv, (void)reply;
    if (!gate_closed) pauses++;
    gate_closed = true;
    holder = control_client;
    allowed = admitted;
}

static void step(int argc, char **argv, struct reply *reply) {
    uint64_t packets = 1;
    if (!gate_closed) return fail(reply, "the ports are open: pause them first");
    if (argc > 1 && !parse_uint(argv[1], UINT32_MAX, &packets)) return fail(reply, "%s is no number of packets", argv[1]);
    allowed += packets;
}

static void resume(int argc, char **argv, struct reply *reply) {
    (void)argc, (void)argv, (void)reply;
    gate_closed = false;
}

void gate_left(int client) {
    if (client == holder) gate_closed = false;
}

static void show_last(int argc, char **argv, struct reply *reply) {
    (void)argc, (void)argv;
    say(reply, "pauses=%llu admitted=%llu port=%u length=%zu bytes=", (unsigned long long)pauses, (unsigned long long)admitted, last.port, last.length);
    for (size_t i = 0; i < last.length && i < SHOWN; i++) say(reply, "%02x", last.bytes[i]);
    say(reply, "\n");
}

const struct command gate_commands[] = {{"pause", 1, 1, pause_ports, ""}, {"step", 1, 2, step, "[packets]"},
                                        {"resume", 1, 1, resume, ""}, {"show_last", 1, 1, show_last, ""}, {0}};
