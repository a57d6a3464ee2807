// How many clones, resubmissions and recirculations one packet may cause, in all its descendants together.
// simple_switch has no such bound, and neither has the running switch unless --most-copies sets one: what a program that
// never stops copying may occupy is then bounded by the egress queues and by the queue in front of ingress.
#include "runtime.h"
#include <stdlib.h>

#define NO_BOUND UINT64_MAX

struct family { uint64_t members, copies; };

static uint64_t most_copies = NO_BOUND, refused, input_drops;

void copies_bound(uint64_t most) { most_copies = most; }

struct family *family_found(void) {
    if (most_copies == NO_BOUND) return NULL;
    struct family *family = malloc(sizeof *family);
    if (!family) abort();
    *family = (struct family){1, 0};
    return family;
}

struct family *family_join(struct family *family) {
    if (family) family->members++;
    return family;
}

void family_leave(struct family *family) {
    if (family && !--family->members) free(family);
}

bool family_may_copy(struct family *family) {
    if (!family || family->copies < most_copies) {
        if (family) family->copies++;
        return true;
    }
    if (!refused++)
        fprintf(stderr, "a packet has caused %llu clones, resubmissions and recirculations; --most-copies allows no more\n",
                (unsigned long long)most_copies);
    return false;
}

void copies_count_input_drop(void) {
    if (!input_drops++) fprintf(stderr, "a resubmitted or recirculated packet was dropped: %d wait already\n", MAX_AGAIN);
}

static void show_copies(int argc, char **argv, struct reply *reply) {
    (void)argc, (void)argv;
    if (most_copies == NO_BOUND) say(reply, "most_copies=none");
    else say(reply, "most_copies=%llu", (unsigned long long)most_copies);
    say(reply, " refused=%llu input_drops=%llu\n", (unsigned long long)refused, (unsigned long long)input_drops);
}

const struct command copies_commands[] = {{"show_copies", 1, 1, show_copies, ""}, {0}};
