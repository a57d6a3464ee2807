// Match-action tables: entries from the control plane, and the lookup.
// Exact tables are hashed; the others keep their entries in order of precedence and take the first that matches.
#include "runtime.h"
#include <stdlib.h>

static uint64_t hash_key(const uint8_t *key, unsigned n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (; n >= 8; n -= 8, key += 8) { uint64_t v; memcpy(&v, key, 8); h = (h ^ v) * 0x9e3779b97f4a7c15u; h ^= h >> 29; }
    for (; n; n--, key++) h = (h ^ *key) * 0x100000001b3u;
    return h ^ h >> 32;
}

static bool all_exact(const struct table *t) {
    for (unsigned i = 0; i < t->key_count; i++)
        if (t->keys[i].kind != MATCH_EXACT) return false;
    return true;
}

static bool has_kind(const struct table *t, enum match_kind kind) {
    for (unsigned i = 0; i < t->key_count; i++)
        if (t->keys[i].kind == kind) return true;
    return false;
}

static bool by_priority(const struct table *t) {
    return has_kind(t, MATCH_TERNARY) || has_kind(t, MATCH_RANGE) || has_kind(t, MATCH_OPTIONAL);
}

static bool entry_matches(const struct table *t, const struct entry *e, const uint8_t *key) {
    unsigned at = 0;
    for (unsigned i = 0; i < t->key_count; i++) {
        unsigned size = (t->keys[i].width + 7) / 8;
        if (t->keys[i].kind == MATCH_RANGE) {
            if (memcmp(key + at, e->key + at, size) < 0 || memcmp(key + at, e->mask + at, size) > 0) return false;
        } else {
            for (unsigned b = at; b < at + size; b++)
                if ((key[b] & e->mask[b]) != e->key[b]) return false;
        }
        at += size;
    }
    return true;
}

static struct entry *find(struct table *t, const uint8_t *key) {
    if (t->buckets) {
        for (struct entry *e = t->buckets[hash_key(key, t->key_bytes) % t->bucket_count]; e; e = e->next)
            if (!memcmp(e->key, key, t->key_bytes)) return e;
        return NULL;
    }
    for (struct entry *e = t->ordered; e; e = e->next)
        if (entry_matches(t, e, key)) return e;
    return NULL;
}

const struct entry *table_lookup(struct table *t, const uint8_t *key) {
    struct entry *e = find(t, key);
    if (e && t->counts) e->count.packets++, e->count.bytes += arrived_length;
    return e;
}

static void reset_default(struct table *t) {
    t->default_action = t->first_default;
    memcpy(t->default_data, t->first_default_data, sizeof t->default_data);
}

void tables_init(void) {
    for (struct table *const *t = program_tables; *t; t++) {
        reset_default(*t);
        if (all_exact(*t) && (*t)->key_count) {
            (*t)->bucket_count = (*t)->size * 2 + 1;
            (*t)->buckets = calloc((*t)->bucket_count, sizeof *(*t)->buckets);
            if (!(*t)->buckets) abort();
        }
    }
}

// --- commands

static struct table *find_table(const char *name, struct reply *reply) {
    struct table *found = NULL;
    for (struct table *const *t = program_tables; *t; t++) {
        if (!strcmp((*t)->name, name)) return *t;
        if (name_matches((*t)->name, name)) {
            if (found) return fail(reply, "%s is ambiguous: %s or %s", name, found->name, (*t)->name), NULL;
            found = *t;
        }
    }
    if (found) return found;
    fail(reply, "there is no table %s", name);
    for (unsigned i = 0; program_tables[i]; i++) offer(reply, i, program_tables[i]->name);
    return NULL;
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

static void insert(struct table *t, struct entry *e) {
    struct entry **place;
    if (t->buckets) {
        place = &t->buckets[hash_key(e->key, t->key_bytes) % t->bucket_count];
    } else {
        bool priority = by_priority(t);
        for (place = &t->ordered; *place; place = &(*place)->next)
            if (priority ? (*place)->priority > e->priority : (*place)->prefix < e->prefix) break;
    }
    e->next = *place;
    *place = e;
    t->entries++;
}

static bool same_key(const struct table *t, const struct entry *a, const struct entry *b) {
    return !memcmp(a->key, b->key, t->key_bytes) && !memcmp(a->mask, b->mask, t->key_bytes) && a->priority == b->priority;
}

// visits every entry; a visitor that removes the entry at `place` returns true
typedef bool visitor(struct table *t, struct entry **place, void *argument);
static void each_entry(struct table *t, visitor *visit, void *argument) {
    unsigned lists = t->buckets ? t->bucket_count : 1;
    for (unsigned i = 0; i < lists; i++)
        for (struct entry **place = t->buckets ? &t->buckets[i] : &t->ordered; *place;)
            if (!visit(t, place, argument)) place = &(*place)->next;
}

static bool match_key(struct table *t, struct entry **place, void *argument) {
    struct entry **wanted = argument;
    if (*wanted && (*wanted)->handle == UINT32_MAX && same_key(t, *place, *wanted)) *wanted = *place;
    return false;
}

static void free_entry(struct entry *e) {
    free(e->key);
    free(e->mask);
    free(e);
}

static bool remove_all(struct table *t, struct entry **place, void *argument) {
    struct entry *e = *place;
    (void)argument;
    *place = e->next;
    free_entry(e);
    t->entries--;
    return true;
}

struct by_handle { uint64_t handle; struct entry *found; bool remove; };
static bool match_handle(struct table *t, struct entry **place, void *argument) {
    struct by_handle *wanted = argument;
    if ((*place)->handle != wanted->handle) return false;
    wanted->found = *place;
    return wanted->remove && remove_all(t, place, NULL);
}

static void table_add(int argc, char **argv, struct reply *reply) {
    struct table *t = find_table(argv[1], reply);
    int action = t ? find_action(t, argv[2], reply) : -1;
    if (action < 0) return;
    if (t->constant) return fail(reply, "the entries of table %s are const", t->name);
    if (!t->key_count) return fail(reply, "table %s has no key", t->name);
    int arrow = 3;
    while (arrow < argc && strcmp(argv[arrow], "=>")) arrow++;
    bool priority = by_priority(t);
    const struct action_info *info = &t->actions[action];
    if (arrow - 3 != (int)t->key_count)
        return fail(reply, "table %s has %u key fields, and %d are given", t->name, t->key_count, arrow - 3);
    int given = argc - arrow - 1;
    if (given < 0) given = 0;
    if (given != (int)info->count + priority)
        return fail(reply, "action %s takes %u parameters%s, and %d are given", info->name, info->count,
                    priority ? " and the entry a priority" : "", given);
    if (t->entries >= t->size) return fail(reply, "table %s is full: its size is %u", t->name, t->size);
    struct entry *e = calloc(1, sizeof *e);
    if (!e || !(e->key = calloc(1, t->key_bytes)) || !(e->mask = calloc(1, t->key_bytes))) abort();
    e->handle = UINT32_MAX;
    unsigned at = 0;
    uint64_t number;
    for (unsigned i = 0; i < t->key_count; i++) {
        char *text = argv[3 + i], shown[80];
        snprintf(shown, sizeof shown, "%s", text);
        if (!parse_field(&t->keys[i], text, e, at)) {
            static const char *const forms[] = {"a value", "value/length", "value&&&mask", "low->high", "a value"};
            fail(reply, "%s does not match key %s of %s: %s of %u bits is needed", shown, t->keys[i].name, t->name,
                 forms[t->keys[i].kind], t->keys[i].width);
            return free_entry(e);
        }
        at += (t->keys[i].width + 7) / 8;
    }
    if (!parse_data(info, argv + arrow + 1, e->data, reply)) return free_entry(e);
    if (priority) {
        if (!parse_uint(argv[argc - 1], INT32_MAX, &number))
            return fail(reply, "%s is not a priority", argv[argc - 1]), free_entry(e);
        e->priority = (int32_t)number;
    }
    struct entry *same = e;
    each_entry(t, match_key, &same);
    if (same != e) return fail(reply, "table %s has such an entry: handle %u", t->name, same->handle), free_entry(e);
    e->handle = t->next_handle++;
    e->action = (unsigned)action;
    insert(t, e);
    say(reply, "Entry has been added with handle %u\n", e->handle);
}

static void table_change(int argc, char **argv, struct reply *reply, bool remove) {
    struct table *t = find_table(argv[1], reply);
    uint64_t handle;
    if (!t) return;
    if (t->constant) return fail(reply, "the entries of table %s are const", t->name);
    const char *text = remove ? argv[2] : argv[3];
    struct by_handle wanted = {0, NULL, remove};
    if (!parse_uint(text, UINT32_MAX, &handle)) return fail(reply, "%s is not a handle", text);
    wanted.handle = handle;
    int action = remove ? 0 : find_action(t, argv[2], reply);
    if (action < 0) return;
    uint64_t data[MAX_ACTION_WORDS] = {0};
    if (!remove) {
        int start = argc > 4 && !strcmp(argv[4], "=>") ? 5 : 4;
        if (argc - start != (int)t->actions[action].count)
            return fail(reply, "action %s takes %u parameters", t->actions[action].name, t->actions[action].count);
        if (!parse_data(&t->actions[action], argv + start, data, reply)) return;
    }
    each_entry(t, match_handle, &wanted);
    if (!wanted.found) return fail(reply, "table %s has no entry %s", t->name, text);
    if (!remove) {
        wanted.found->action = (unsigned)action;
        memcpy(wanted.found->data, data, sizeof data);
    }
}

static void table_set_default(int argc, char **argv, struct reply *reply) {
    struct table *t = find_table(argv[1], reply);
    int action = t ? find_action(t, argv[2], reply) : -1;
    if (action < 0) return;
    if (t->constant_default) return fail(reply, "the default action of table %s is const", t->name);
    int start = argc > 3 && !strcmp(argv[3], "=>") ? 4 : 3;
    uint64_t data[MAX_ACTION_WORDS] = {0};
    if (argc - start != (int)t->actions[action].count)
        return fail(reply, "action %s takes %u parameters, and %d are given", t->actions[action].name,
                    t->actions[action].count, argc - start);
    if (!parse_data(&t->actions[action], argv + start, data, reply)) return;
    t->default_action = (unsigned)action;
    memcpy(t->default_data, data, sizeof data);
}

static void table_info(const char *name, struct reply *reply) {
    static const char *const kinds[] = {"exact", "lpm", "ternary", "range", "optional"};
    const struct table *t = find_table(name, reply);
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

static bool dump_entry(struct table *t, struct entry **place, void *argument) {
    struct reply *reply = argument;
    const struct entry *e = *place;
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
    for (unsigned i = 0; i < t->actions[e->action].count; i++) say(reply, " %llx", (unsigned long long)e->data[i]);
    say(reply, "\n");
    return false;
}

static void direct_counter_read(struct table *t, char **argv, struct reply *reply) {
    struct by_handle wanted = {0, NULL, false};
    if (!parse_uint(argv[2], UINT32_MAX, &wanted.handle)) return fail(reply, "%s is not a handle", argv[2]);
    each_entry(t, match_handle, &wanted);
    if (!wanted.found) return fail(reply, "table %s has no entry %s", t->name, argv[2]);
    say(reply, "%s[%s]= BmCounterValue(packets=%llu, bytes=%llu)\n", argv[1], argv[2],
        (unsigned long long)wanted.found->count.packets, (unsigned long long)wanted.found->count.bytes);
}

void tables_reset(void) {
    for (struct table *const *t = program_tables; *t; t++) {
        if (!(*t)->constant) each_entry(*t, remove_all, NULL);
        if (!(*t)->constant_default) reset_default(*t);
    }
}

bool table_command(int argc, char **argv, struct reply *reply) {
    const char *name = argv[0];
    struct table *t;
    if (!strcmp(name, "table_add") && argc >= 3) {
        table_add(argc, argv, reply);
    } else if (!strcmp(name, "table_set_default") && argc >= 3) {
        table_set_default(argc, argv, reply);
    } else if (!strcmp(name, "table_reset_default") && argc == 2) {
        if ((t = find_table(argv[1], reply))) reset_default(t);
    } else if (!strcmp(name, "table_delete") && argc == 3) {
        table_change(argc, argv, reply, true);
    } else if (!strcmp(name, "table_modify") && argc >= 4) {
        table_change(argc, argv, reply, false);
    } else if (!strcmp(name, "table_clear") && argc == 2) {
        if ((t = find_table(argv[1], reply))) each_entry(t, remove_all, NULL);
    } else if (!strcmp(name, "table_num_entries") && argc == 2) {
        if ((t = find_table(argv[1], reply))) say(reply, "%u\n", t->entries);
    } else if (!strcmp(name, "table_dump") && argc == 2) {
        if (!(t = find_table(argv[1], reply))) return true;
        each_entry(t, dump_entry, reply);
        say(reply, "default: %s\n", t->actions[t->default_action].name);
    } else if (!strcmp(name, "table_info") && argc == 2) {
        table_info(argv[1], reply);
    } else if (!strcmp(name, "show_tables") && argc == 1) {
        for (struct table *const *each = program_tables; *each; each++) say(reply, "%s\n", (*each)->name);
    } else if (!strcmp(name, "counter_read") && argc == 3) {
        for (struct table *const *each = program_tables; *each; each++)
            if ((*each)->counts && name_matches((*each)->counter_name, argv[1])) return direct_counter_read(*each, argv, reply), true;
        return false;
    } else {
        return false;
    }
    return true;
}
