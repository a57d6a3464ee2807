// Value sets: values that the control plane adds, and parsers look up.
#include "runtime.h"

static unsigned bytes_of(const struct value_set *set) { return (set->width + 7) / 8; }

// the place of a value; set->count if it is not there
static uint32_t find(const struct value_set *set, const uint8_t *value) {
    uint32_t i = 0;
    while (i < set->count && memcmp(set->values + (size_t)i * bytes_of(set), value, bytes_of(set))) i++;
    return i;
}

bool value_set_has(const struct value_set *set, const uint8_t *value) { return find(set, value) < set->count; }

void value_sets_reset(void) {
    for (struct value_set *const *set = program_value_sets; *set; set++) (*set)->count = 0;
}

// --- commands

static const char *set_name(unsigned i) { return program_value_sets[i] ? program_value_sets[i]->name : NULL; }

static struct value_set *named(const char *name, struct reply *reply) {
    int i = find_name("value_set", name, set_name, NULL, reply);
    return i < 0 ? NULL : program_value_sets[i];
}

static bool parse_value(const struct value_set *set, const char *text, uint8_t *value, struct reply *reply) {
    if (parse_number(text, set->width, value)) return true;
    return fail(reply, "%s is not a value of %s, which has %u bits", text, set->name, set->width), false;
}

static void add(int argc, char **argv, struct reply *reply) {
    (void)argc;
    struct value_set *set = named(argv[1], reply);
    uint8_t value[MAX_NUMBER];
    if (!set || !parse_value(set, argv[2], value, reply) || value_set_has(set, value)) return;
    if (set->count == set->size) return fail(reply, "%s is full: its size is %u", set->name, set->size);
    memcpy(set->values + (size_t)set->count++ * bytes_of(set), value, bytes_of(set));
}

static void take_out(int argc, char **argv, struct reply *reply) {
    (void)argc;
    struct value_set *set = named(argv[1], reply);
    uint8_t value[MAX_NUMBER];
    if (!set || !parse_value(set, argv[2], value, reply)) return;
    uint32_t i = find(set, value);
    if (i == set->count) return fail(reply, "%s has no value %s", set->name, argv[2]);
    uint8_t *last = set->values + (size_t)--set->count * bytes_of(set);
    memmove(set->values + (size_t)i * bytes_of(set), last, bytes_of(set));
}

static void clear(int argc, char **argv, struct reply *reply) {
    (void)argc;
    struct value_set *set = named(argv[1], reply);
    if (set) set->count = 0;
}

static void show(int argc, char **argv, struct reply *reply) {
    (void)argc;
    const struct value_set *set = named(argv[1], reply);
    for (uint32_t i = 0; set && i < set->count; i++) {
        say_number(reply, set->values + (size_t)i * bytes_of(set), bytes_of(set));
        say(reply, "\n");
    }
}

static void show_sets(int argc, char **argv, struct reply *reply) {
    (void)argc, (void)argv;
    for (struct value_set *const *set = program_value_sets; *set; set++) say(reply, "%s [%u bits]\n", (*set)->name, (*set)->width);
}

const struct command value_set_commands[] = {
    {"show_pvs", 1, 1, show_sets, ""},
    {"pvs_add", 3, 3, add, "VALUE_SET VALUE"},
    {"pvs_remove", 3, 3, take_out, "VALUE_SET VALUE"},
    {"pvs_clear", 2, 2, clear, "VALUE_SET"},
    {"pvs_get", 2, 2, show, "VALUE_SET"},
    {0},
};
