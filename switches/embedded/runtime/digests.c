// Digests: what a program tells the control plane. They are kept until somebody asks for them.
#include "runtime.h"
#include <stdlib.h>

#define KEPT 1024  // digests that nobody has asked for; what comes later is lost, and counted

static struct reply digests[KEPT];
static unsigned count;
static uint64_t lost;
static struct reply *current;

void digest_begin(const char *name) {
    current = count < KEPT ? &digests[count++] : NULL;
    lost += current == NULL;
    if (current) say(current, "%s", name);
}

void digest_number(const char *field, uint64_t value) {
    if (current) say(current, " %s=%llu", field, (unsigned long long)value);
}

void digest_wide(const char *field, const uint8_t *bytes, unsigned size) {
    if (!current) return;
    say(current, " %s=", field);
    say_number(current, bytes, size);
}

void digest_end(void) {
    if (current) fprintf(stderr, "digest %s\n", current->text);
}

static void forget(void) {
    for (unsigned i = 0; i < count; i++) {
        free(digests[i].text);
        digests[i] = (struct reply){0};
    }
    count = 0;
    lost = 0;
    current = NULL;
}

static void take(int argc, char **argv, struct reply *reply) {
    (void)argc, (void)argv;
    for (unsigned i = 0; i < count; i++) say(reply, "%s\n", digests[i].text);
    if (lost) say(reply, "lost=%llu\n", (unsigned long long)lost);
    forget();
}

void digests_reset(void) { forget(); }

const struct command digest_commands[] = {{"digests", 1, 1, take, ""}, {0}};
