// Entries of tables as commands write them: keys, actions with their data, handles.
#include "runtime.h"

static const char *table_name(unsigned i) { return program_tables[i] ? program_tables[i]->name : NULL; }

struct table *find_table(const char *name, struct reply *reply) {
    int i = find_name("table", name, table_name, NULL, reply);
    return i < 0 ? NULL : program_tables[i];
}

int find_action(const char *what, const char *of, const struct action_info *actions, unsigned count, const char *name, struct reply *reply) {
    for (unsigned i = 0; i < count; i++)
        if (!strcmp(actions[i].name, name)) return (int)i;
    for (unsigned i = 0; i < count; i++)
        if (name_matches(actions[i].name, name)) return (int)i;
    fail(reply, "%s %s has no action %s", what, of, name);
    for (unsigned i = 0; i < count; i++) offer(reply, i, actions[i].name);
    return -1;
}

bool parse_data(const struct action_info *action, char **argv, uint64_t *data, struct reply *reply) {
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

struct entry *parse_key(struct table *t, char **words, const char *priority, struct reply *reply) {
    struct entry *e = entry_new(t);
    unsigned at = 0;
    uint64_t number;
    for (unsigned i = 0; i < t->key_count; i++) {
        char *text = words[i], shown[80];
        snprintf(shown, sizeof shown, "%s", text);
        if (!parse_field(&t->keys[i], text, e, at)) {
            static const char *const forms[] = {"a value", "value/length", "value&&&mask", "low->high", "a value"};
            fail(reply, "%s does not match key %s of %s: %s of %u bits is needed", shown, t->keys[i].name, t->name,
                 forms[t->keys[i].kind], t->keys[i].width);
            return entry_free(e), NULL;
        }
        at += (t->keys[i].width + 7) / 8;
    }
    if (table_has_priorities(t)) {
        if (!parse_uint(priority, INT32_MAX, &number))
            return fail(reply, "%s is not a priority", priority), entry_free(e), NULL;
        e->priority = (int32_t)number;
    }
    return e;
}

struct entry *parse_entry(struct table *t, int argc, char **argv, int first, const char *action, unsigned wanted, struct reply *reply) {
    if (table_is_constant(t)) return fail(reply, "the entries of table %s are const", t->name), NULL;
    if (!t->key_count) return fail(reply, "table %s has no key", t->name), NULL;
    int arrow = first;
    while (arrow < argc && strcmp(argv[arrow], "=>")) arrow++;
    bool priority = table_has_priorities(t);
    if (arrow - first != (int)t->key_count)
        return fail(reply, "table %s has %u key fields, and %d are given", t->name, t->key_count, arrow - first), NULL;
    int given = argc - arrow - 1;
    if (given < 0) given = 0;
    if (given != (int)wanted + priority)
        return fail(reply, "%s takes %u parameters%s, and %d are given", action, wanted,
                    priority ? " and the entry a priority" : "", given), NULL;
    if (t->entries >= t->size) return fail(reply, "table %s is full: its size is %u", t->name, t->size), NULL;
    struct entry *e = parse_key(t, argv + first, argv[argc - 1], reply);
    if (!e) return NULL;
    const struct entry *same = table_same(t, e);
    if (same) return fail(reply, "table %s has such an entry: handle %u", t->name, same->handle), entry_free(e), NULL;
    return e;
}

struct entry *find_entry(struct table *t, const char *text, struct reply *reply) {
    uint64_t handle;
    if (!parse_uint(text, UINT32_MAX, &handle)) return fail(reply, "%s is not a handle", text), NULL;
    struct entry *e = table_entry(t, (uint32_t)handle);
    if (!e) fail(reply, "table %s has no entry %s", t->name, text);
    return e;
}

bool action_data(int argc, char **argv, int start, const struct action_info *action, uint64_t *data, struct reply *reply) {
    if (argc > start && !strcmp(argv[start], "=>")) start++;
    if (argc - start != (int)action->count)
        return fail(reply, "action %s takes %u parameters, and %d are given", action->name, action->count, argc - start), false;
    return parse_data(action, argv + start, data, reply);
}

void say_action(const struct action_info *action, const uint64_t *data, struct reply *reply) {
    say(reply, " %s", action->name);
    for (unsigned i = 0; i < action->count; i++) {
        unsigned width = action->parameters[i].width;
        if (width <= 64) {
            say(reply, " %llx", (unsigned long long)*data++);
            continue;
        }
        const uint8_t *bytes = (const uint8_t *)data;
        say(reply, " ");
        for (unsigned b = 0; b < (width + 7) / 8; b++) say(reply, "%02x", bytes[b]);
        data += ((width + 7) / 8 + 7) / 8;
    }
}
