// The steps of the packet handled last, in programs compiled with a trace: what the labs' checks show of a wrong packet.
#include "runtime.h"

#define MOST_STEPS 65536u
#define EGRESS 0x80000000u  // of a step: a copy enters egress for a port

static uint32_t steps[MOST_STEPS];
static unsigned count;

static void record(uint32_t step) {
    if (count < MOST_STEPS) steps[count++] = step;
}

void trace_step(uint32_t point) { record(point); }

void trace_begin(void) { count = 0; }

void trace_egress(unsigned port) {
    if (program_trace_points[0].file) record(EGRESS | port);
}

static void show_trace(int argc, char **argv, struct reply *reply) {
    (void)argc, (void)argv;
    for (unsigned i = 0; i < count; i++) {
        if (steps[i] & EGRESS) {
            say(reply, "egress %u\n", steps[i] & ~EGRESS);
        } else {
            const struct trace_point *point = &program_trace_points[steps[i]];
            say(reply, "%u %s\t%s\n", point->line, point->file, point->writes);
        }
    }
}

const struct command trace_commands[] = {{"show_trace", 1, 1, show_trace, ""}, {0}};
