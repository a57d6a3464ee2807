// Commands on tables, as simple_switch_CLI has them.
#include "runtime.h"

// an action of a table without an action profile, by its number; -1, with a reason: there is none
static int find_table_action(const struct table *t, const char *name, struct reply *reply) {
    if (!t->profile) return find_action("table", t->name, t->actions, t->action_count, name, reply);
    fail(reply, "table %s refers to members of %s: use table_indirect_add and its like", t->name, t->profile->name);
    return -1;
}

static void table_add(int argc, char **argv, struct reply *reply) {
    struct table *t = find_table(argv[1], reply);
    int action = t ? find_table_action(t, argv[2], reply) : -1;
    if (action < 0) return;
    const struct action_info *info = &t->actions[action];
    char shown[200];
    snprintf(shown, sizeof shown, "action %s", info->name);
    struct entry *e = parse_entry(t, argc, argv, 3, shown, info->count, reply);
    if (!e) return;
    if (!parse_data(info, argv + 4 + t->key_count, e->data, reply)) return entry_free(e);
    e->action = (unsigned)action;
    table_insert(t, e);
    say(reply, "Entry has been added with handle %u\n", e->handle);
}

static void table_delete(int argc, char **argv, struct reply *reply) {
    (void)argc;
    struct table *t = find_table(argv[1], reply);
    if (!t) return;
    if (table_is_constant(t)) return fail(reply, "the entries of table %s are const", t->name);
    const struct entry *e = find_entry(t, argv[2], reply);
    if (e) table_remove(t, e->handle);
}

static void table_modify(int argc, char **argv, struct reply *reply) {
    struct table *t = find_table(argv[1], reply);
    if (!t) return;
    if (table_is_constant(t)) return fail(reply, "the entries of table %s are const", t->name);
    int action = find_table_action(t, argv[2], reply);
    uint64_t data[MAX_ACTION_WORDS] = {0};
    struct entry *e = action < 0 ? NULL : find_entry(t, argv[3], reply);
    if (!e || !action_data(argc, argv, 4, &t->actions[action], data, reply)) return;
    e->action = (unsigned)action;
    memcpy(e->data, data, sizeof data);
}

static void table_set_default(int argc, char **argv, struct reply *reply) {
    struct table *t = find_table(argv[1], reply);
    int action = t ? find_table_action(t, argv[2], reply) : -1;
    if (action < 0) return;
    if (t->constant_default) return fail(reply, "the default action of table %s is const", t->name);
    uint64_t data[MAX_ACTION_WORDS] = {0};
    if (!action_data(argc, argv, 3, &t->actions[action], data, reply)) return;
    t->default_action = (unsigned)action;
    memcpy(t->default_data, data, sizeof data);
}

static void reset_default(int argc, char **argv, struct reply *reply) {
    (void)argc;
    struct table *t = find_table(argv[1], reply);
    if (t) table_reset_default(t);
}

static void clear(int argc, char **argv, struct reply *reply) {
    (void)argc;
    struct table *t = find_table(argv[1], reply);
    if (!t) return;
    if (table_is_constant(t)) return fail(reply, "the entries of table %s are const", t->name);
    table_clear(t);
}

// --- what there is

static void num_entries(int argc, char **argv, struct reply *reply) {
    (void)argc;
    const struct table *t = find_table(argv[1], reply);
    if (t) say(reply, "%u\n", t->entries);
}

static void say_parameters(const struct action_info *action, struct reply *reply) {
    say(reply, "%s [", action->name);
    for (unsigned i = 0; i < action->count; i++)
        say(reply, "%s%s(%u)", i ? ",\t" : "", action->parameters[i].name, action->parameters[i].width);
    say(reply, "]\n");
}

static void say_actions(const struct table *t, struct reply *reply) {
    for (unsigned a = 0; a < t->action_count; a++) say_parameters(&t->actions[a], reply);
}

static void table_info(int argc, char **argv, struct reply *reply) {
    (void)argc;
    static const char *const kinds[] = {"exact", "lpm", "ternary", "range", "optional"};
    const struct table *t = find_table(argv[1], reply);
    if (!t) return;
    say(reply, "%s [implementation=%s, mk=", t->name, t->profile ? t->profile->name : "None");
    for (unsigned i = 0; i < t->key_count; i++)
        say(reply, "%s%s(%s, %u)", i ? ",\t" : "", t->keys[i].name, kinds[t->keys[i].kind], t->keys[i].width);
    say(reply, "]\n");
    say_actions(t, reply);
}

static void show_actions_of(int argc, char **argv, struct reply *reply) {
    (void)argc;
    const struct table *t = find_table(argv[1], reply);
    if (t) say_actions(t, reply);
}

// whether a table before this one has an action of that name
static bool shown_before(const struct table *t, const char *name) {
    for (struct table *const *other = program_tables; *other != t; other++)
        for (unsigned a = 0; a < (*other)->action_count; a++)
            if (!strcmp((*other)->actions[a].name, name)) return true;
    return false;
}

static void show_actions(int argc, char **argv, struct reply *reply) {
    (void)argc, (void)argv;
    for (struct table *const *t = program_tables; *t; t++)
        for (unsigned a = 0; a < (*t)->action_count; a++)
            if (!shown_before(*t, (*t)->actions[a].name)) say_parameters(&(*t)->actions[a], reply);
}

static void say_target(const struct table *t, struct reference to, unsigned action, const uint64_t *data, struct reply *reply) {
    if (to.kind == TO_NOTHING && t->profile)
        say(reply, " none");
    else if (to.kind == TO_NOTHING)
        say_action(&t->actions[action], data, reply);
    else
        say(reply, " %s %u", to.kind == TO_GROUP ? "group" : "member", to.handle);
    say(reply, "\n");
}

static void dump_entry(const struct table *t, const struct entry *e, void *argument) {
    struct reply *reply = argument;
    say(reply, "entry %u:", e->handle);
    unsigned at = 0;
    for (unsigned i = 0; i < t->key_count; i++) {
        unsigned size = (t->keys[i].width + 7) / 8;
        say(reply, " %s=", t->keys[i].name);
        for (unsigned b = 0; b < size; b++) say(reply, "%02x", e->key[at + b]);
        if (t->keys[i].kind != MATCH_EXACT) {
            say(reply, t->keys[i].kind == MATCH_RANGE ? "->" : "&&&");
            for (unsigned b = 0; b < size; b++) say(reply, "%02x", e->mask[at + b]);
        }
        at += size;
    }
    if (table_has_priorities(t)) say(reply, " priority=%d", (int)e->priority);
    if (t->ages)
        say(reply, " timeout_ms=%llu idle_ms=%llu", (unsigned long long)e->timeout_ms,
            (unsigned long long)(pipeline_now() / 1000000 - e->hit_ms));
    say(reply, " =>");
    say_target(t, e->to, e->action, e->data, reply);
}

static void dump_one(int argc, char **argv, struct reply *reply) {
    (void)argc;
    struct table *t = find_table(argv[1], reply);
    const struct entry *e = t ? find_entry(t, argv[2], reply) : NULL;
    if (e) dump_entry(t, e, reply);
}

static void dump_of_key(int argc, char **argv, struct reply *reply) {
    struct table *t = find_table(argv[1], reply);
    if (!t) return;
    bool priority = table_has_priorities(t);
    if (!t->key_count || argc - 2 != (int)t->key_count + priority)
        return fail(reply, "table %s has %u key fields%s, and %d words are given", t->name, t->key_count,
                    priority ? ", and its entries have a priority behind them" : "", argc - 2);
    struct entry *wanted = parse_key(t, argv + 2, argv[argc - 1], reply);
    if (!wanted) return;
    const struct entry *found = table_same(t, wanted);
    entry_free(wanted);
    if (found)
        dump_entry(t, found, reply);
    else
        fail(reply, "table %s has no entry of that key", t->name);
}

static void dump(int argc, char **argv, struct reply *reply) {
    (void)argc;
    struct table *t = find_table(argv[1], reply);
    if (!t) return;
    table_each(t, dump_entry, reply);
    say(reply, "default:");
    say_target(t, t->default_to, t->default_action, t->default_data, reply);
}

static void show_tables(int argc, char **argv, struct reply *reply) {
    (void)argc, (void)argv;
    for (struct table *const *t = program_tables; *t; t++) say(reply, "%s\n", (*t)->name);
}

static void set_timeout(int argc, char **argv, struct reply *reply) {
    (void)argc;
    uint64_t timeout;
    struct table *t = find_table(argv[1], reply);
    struct entry *e = t ? find_entry(t, argv[2], reply) : NULL;
    if (!e) return;
    if (!t->ages) return fail(reply, "the entries of table %s do not age: it has no support_timeout", t->name);
    if (!parse_uint(argv[3], UINT32_MAX, &timeout)) return fail(reply, "%s is not a timeout in milliseconds", argv[3]);
    e->timeout_ms = timeout;
    e->hit_ms = pipeline_now() / 1000000;
}

static void say_idle(const struct table *t, const struct entry *e, void *argument) {
    struct reply *reply = argument;
    (void)t;
    if (e->timeout_ms && pipeline_now() / 1000000 - e->hit_ms >= e->timeout_ms) say(reply, "%u\n", e->handle);
}

static void idle(int argc, char **argv, struct reply *reply) {
    (void)argc;
    struct table *t = find_table(argv[1], reply);
    if (t) table_each(t, say_idle, reply);
}

// --- counters and meters in the entries

static const char *counter_of(const struct table *t) { return t->counter_name; }
static const char *meter_of(const struct table *t) { return t->meter_name; }

static const char *direct_name(const char *(*name)(const struct table *), unsigned i) {
    for (struct table *const *t = program_tables; *t; t++)
        if (name(*t) && i-- == 0) return name(*t);
    return NULL;
}

const char *direct_counter_name(unsigned i) { return direct_name(counter_of, i); }
const char *direct_meter_name(unsigned i) { return direct_name(meter_of, i); }

// the table whose counters or meters have this name; NULL: none. One of an array goes before one that only ends in it.
static struct table *table_with(const char *(*name)(const struct table *), const char *(*array)(unsigned), const char *given) {
    for (struct table *const *t = program_tables; *t; t++)
        if (name(*t) && !strcmp(name(*t), given)) return *t;
    for (unsigned i = 0; array(i); i++)
        if (name_matches(array(i), given)) return NULL;
    for (struct table *const *t = program_tables; *t; t++)
        if (name(*t) && name_matches(name(*t), given)) return *t;
    return NULL;
}

bool direct_counter(char **argv, struct count **found, struct reply *reply) {
    struct table *t = table_with(counter_of, counter_name, argv[1]);
    struct entry *e = t ? find_entry(t, argv[2], reply) : NULL;
    *found = e ? &e->count : NULL;
    return t != NULL;
}

bool direct_counter_reset(char **argv) {
    struct table *t = table_with(counter_of, counter_name, argv[1]);
    if (t) table_reset_counts(t);
    return t != NULL;
}

bool direct_meter(char **argv, struct entry **found, struct reply *reply) {
    struct table *t = table_with(meter_of, meter_name, argv[1]);
    *found = t ? find_entry(t, argv[2], reply) : NULL;
    return t != NULL;
}

bool direct_meter_set_all(char **argv, const struct meter *meter) {
    struct table *t = table_with(meter_of, meter_name, argv[1]);
    if (t) table_set_meters(t, meter);
    return t != NULL;
}

const struct command table_commands[] = {
    {"table_add", 3, MANY, table_add, "TABLE ACTION KEY... => DATA... [PRIORITY]"},
    {"table_set_default", 3, MANY, table_set_default, "TABLE ACTION DATA..."},
    {"table_reset_default", 2, 2, reset_default, "TABLE"},
    {"table_delete", 3, 3, table_delete, "TABLE HANDLE"},
    {"table_modify", 4, MANY, table_modify, "TABLE ACTION HANDLE DATA..."},
    {"table_clear", 2, 2, clear, "TABLE"},
    {"table_num_entries", 2, 2, num_entries, "TABLE"},
    {"table_set_timeout", 4, 4, set_timeout, "TABLE HANDLE MILLISECONDS"},
    {"table_idle", 2, 2, idle, "TABLE"},
    {"table_dump", 2, 2, dump, "TABLE"},
    {"table_dump_entry", 3, 3, dump_one, "TABLE HANDLE"},
    {"table_dump_entry_from_key", 2, MANY, dump_of_key, "TABLE KEY... [PRIORITY]"},
    {"table_show_actions", 2, 2, show_actions_of, "TABLE"},
    {"show_actions", 1, 1, show_actions, ""},
    {"table_info", 2, 2, table_info, "TABLE"},
    {"show_tables", 1, 1, show_tables, ""},
    {0},
};
