// Commands on tables, as simple_switch_CLI has them.
#include "runtime.h"

static const char *table_name(unsigned i) { return program_tables[i] ? program_tables[i]->name : NULL; }

static struct table *find_table(const char *name, struct reply *reply) {
    int i = find_name("table", name, table_name, reply);
    return i < 0 ? NULL : program_tables[i];
}

static int find_action(const struct table *t, const char *name, struct reply *reply) {
    for (unsigned i = 0; i < t->action_count; i++)
        if (name_matches(t->actions[i].name, name)) return (int)i;
    fail(reply, "table %s has no action %s", t->name, name);
    for (unsigned i = 0; i < t->action_count; i++) offer(reply, i, t->actions[i].name);
    return -1;
}

static bool parse_data(const struct action_info *action, char **argv, uint64_t *data, struct reply *reply) {
    unsigned word = 0;
    for (unsigned i = 0; i < action->count; i++) {
        unsigned width = action->parameters[i].width, words = width <= 64 ? 1 : ((width + 7) / 8 + 7) / 8;
        uint8_t bytes[256];
        if (word + words > MAX_ACTION_WORDS) return fail(reply, "action %s has too many parameters", action->name), false;
        if (!parse_number(argv[i], width, bytes))
            return fail(reply, "%s is not a value for %s of %s, which has %u bits", argv[i], action->parameters[i].name,
                        action->name, width), false;
        if (width > 64) {
            memcpy(data + word, bytes, (width + 7) / 8);
        } else {
            data[word] = 0;
            for (unsigned b = 0; b < (width + 7) / 8; b++) data[word] = data[word] << 8 | bytes[b];
        }
        word += words;
    }
    return true;
}

// one field of a key into e->key and e->mask at byte `at`: v, v/length, v&&&mask or low->high
static bool parse_field(const struct key_field *field, char *text, struct entry *e, unsigned at) {
    unsigned width = field->width, size = (width + 7) / 8;
    char *second;
    memset(e->mask + at, 0xff, size);
    switch (field->kind) {
    case MATCH_EXACT:
        return parse_number(text, width, e->key + at);
    case MATCH_LPM: {
        uint64_t length;
        if (!(second = strchr(text, '/'))) return false;
        *second++ = '\0';
        if (!parse_number(text, width, e->key + at) || !parse_uint(second, width, &length)) return false;
        memset(e->mask + at, 0, size);
        for (unsigned bit = size * 8 - width; bit < size * 8 - width + length; bit++)
            e->mask[at + bit / 8] |= (uint8_t)(0x80 >> bit % 8);
        for (unsigned b = at; b < at + size; b++) e->key[b] &= e->mask[b];
        e->prefix = (uint32_t)length;
        return true;
    }
    case MATCH_TERNARY:
    case MATCH_OPTIONAL:
        if (!(second = strstr(text, "&&&"))) return parse_number(text, width, e->key + at);
        *second = '\0';
        if (!parse_number(text, width, e->key + at) || !parse_number(second + 3, width, e->mask + at)) return false;
        for (unsigned b = at; b < at + size; b++) e->key[b] &= e->mask[b];
        return true;
    case MATCH_RANGE:
        if (!(second = strstr(text, "->"))) return false;
        *second = '\0';
        return parse_number(text, width, e->key + at) && parse_number(second + 2, width, e->mask + at) &&
               memcmp(e->key + at, e->mask + at, size) <= 0;
    }
    return false;
}

static void table_add(int argc, char **argv, struct reply *reply) {
    struct table *t = find_table(argv[1], reply);
    int action = t ? find_action(t, argv[2], reply) : -1;
    if (action < 0) return;
    if (table_is_constant(t)) return fail(reply, "the entries of table %s are const", t->name);
    if (!t->key_count) return fail(reply, "table %s has no key", t->name);
    int arrow = 3;
    while (arrow < argc && strcmp(argv[arrow], "=>")) arrow++;
    bool priority = table_has_priorities(t);
    const struct action_info *info = &t->actions[action];
    if (arrow - 3 != (int)t->key_count)
        return fail(reply, "table %s has %u key fields, and %d are given", t->name, t->key_count, arrow - 3);
    int given = argc - arrow - 1;
    if (given < 0) given = 0;
    if (given != (int)info->count + priority)
        return fail(reply, "action %s takes %u parameters%s, and %d are given", info->name, info->count,
                    priority ? " and the entry a priority" : "", given);
    if (t->entries >= t->size) return fail(reply, "table %s is full: its size is %u", t->name, t->size);
    struct entry *e = entry_new(t);
    unsigned at = 0;
    uint64_t number;
    for (unsigned i = 0; i < t->key_count; i++) {
        char *text = argv[3 + i], shown[80];
        snprintf(shown, sizeof shown, "%s", text);
        if (!parse_field(&t->keys[i], text, e, at)) {
            static const char *const forms[] = {"a value", "value/length", "value&&&mask", "low->high", "a value"};
            fail(reply, "%s does not match key %s of %s: %s of %u bits is needed", shown, t->keys[i].name, t->name,
                 forms[t->keys[i].kind], t->keys[i].width);
            return entry_free(e);
        }
        at += (t->keys[i].width + 7) / 8;
    }
    if (!parse_data(info, argv + arrow + 1, e->data, reply)) return entry_free(e);
    if (priority) {
        if (!parse_uint(argv[argc - 1], INT32_MAX, &number))
            return fail(reply, "%s is not a priority", argv[argc - 1]), entry_free(e);
        e->priority = (int32_t)number;
    }
    const struct entry *same = table_same(t, e);
    if (same) return fail(reply, "table %s has such an entry: handle %u", t->name, same->handle), entry_free(e);
    e->action = (unsigned)action;
    table_insert(t, e);
    say(reply, "Entry has been added with handle %u\n", e->handle);
}

// the entry that a handle names
static struct entry *find_entry(struct table *t, const char *text, struct reply *reply) {
    uint64_t handle;
    if (!parse_uint(text, UINT32_MAX, &handle)) return fail(reply, "%s is not a handle", text), NULL;
    struct entry *e = table_entry(t, (uint32_t)handle);
    if (!e) fail(reply, "table %s has no entry %s", t->name, text);
    return e;
}

static void table_delete(int argc, char **argv, struct reply *reply) {
    (void)argc;
    struct table *t = find_table(argv[1], reply);
    if (!t) return;
    if (table_is_constant(t)) return fail(reply, "the entries of table %s are const", t->name);
    const struct entry *e = find_entry(t, argv[2], reply);
    if (e) table_remove(t, e->handle);
}

// an action's parameters behind an optional =>; false if they do not fit
static bool action_data(int argc, char **argv, int start, const struct action_info *action, uint64_t *data, struct reply *reply) {
    if (argc > start && !strcmp(argv[start], "=>")) start++;
    if (argc - start != (int)action->count)
        return fail(reply, "action %s takes %u parameters, and %d are given", action->name, action->count, argc - start), false;
    return parse_data(action, argv + start, data, reply);
}

static void table_modify(int argc, char **argv, struct reply *reply) {
    struct table *t = find_table(argv[1], reply);
    if (!t) return;
    if (table_is_constant(t)) return fail(reply, "the entries of table %s are const", t->name);
    int action = find_action(t, argv[2], reply);
    uint64_t data[MAX_ACTION_WORDS] = {0};
    struct entry *e = action < 0 ? NULL : find_entry(t, argv[3], reply);
    if (!e || !action_data(argc, argv, 4, &t->actions[action], data, reply)) return;
    e->action = (unsigned)action;
    memcpy(e->data, data, sizeof data);
}

static void table_set_default(int argc, char **argv, struct reply *reply) {
    struct table *t = find_table(argv[1], reply);
    int action = t ? find_action(t, argv[2], reply) : -1;
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

static void table_info(int argc, char **argv, struct reply *reply) {
    (void)argc;
    static const char *const kinds[] = {"exact", "lpm", "ternary", "range", "optional"};
    const struct table *t = find_table(argv[1], reply);
    if (!t) return;
    say(reply, "%s [implementation=None, mk=", t->name);
    for (unsigned i = 0; i < t->key_count; i++)
        say(reply, "%s%s(%s, %u)", i ? ",\t" : "", t->keys[i].name, kinds[t->keys[i].kind], t->keys[i].width);
    say(reply, "]\n");
    for (unsigned a = 0; a < t->action_count; a++) {
        say(reply, "%s [", t->actions[a].name);
        for (unsigned i = 0; i < t->actions[a].count; i++)
            say(reply, "%s%s(%u)", i ? ",\t" : "", t->actions[a].parameters[i].name, t->actions[a].parameters[i].width);
        say(reply, "]\n");
    }
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
    say(reply, " => %s", t->actions[e->action].name);
    unsigned word = 0;
    for (unsigned i = 0; i < t->actions[e->action].count; i++) {
        unsigned width = t->actions[e->action].parameters[i].width;
        if (width <= 64) {
            say(reply, " %llx", (unsigned long long)e->data[word++]);
        } else {
            const uint8_t *bytes = (const uint8_t *)(e->data + word);
            say(reply, " ");
            for (unsigned b = 0; b < (width + 7) / 8; b++) say(reply, "%02x", bytes[b]);
            word += ((width + 7) / 8 + 7) / 8;
        }
    }
    say(reply, "\n");
}

static void dump(int argc, char **argv, struct reply *reply) {
    (void)argc;
    struct table *t = find_table(argv[1], reply);
    if (!t) return;
    table_each(t, dump_entry, reply);
    say(reply, "default: %s\n", t->actions[t->default_action].name);
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

// the table whose counters or meters have this name; NULL: none
static struct table *table_with(const char *(*name)(const struct table *), const char *given) {
    for (struct table *const *t = program_tables; *t; t++)
        if (name(*t) && name_matches(name(*t), given)) return *t;
    return NULL;
}

bool direct_counter_read(char **argv, struct reply *reply) {
    struct table *t = table_with(counter_of, argv[1]);
    const struct entry *e = t ? find_entry(t, argv[2], reply) : NULL;
    if (e) say_count(reply, argv, &e->count);
    return t != NULL;
}

bool direct_counter_reset(char **argv) {
    struct table *t = table_with(counter_of, argv[1]);
    if (t) table_reset_counts(t);
    return t != NULL;
}

bool direct_meter(char **argv, struct entry **found, struct reply *reply) {
    struct table *t = table_with(meter_of, argv[1]);
    *found = t ? find_entry(t, argv[2], reply) : NULL;
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
    {"table_info", 2, 2, table_info, "TABLE"},
    {"show_tables", 1, 1, show_tables, ""},
    {0},
};
