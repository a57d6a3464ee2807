// Match-action tables: their entries, and the lookup.
// Exact tables are hashed; the others keep their entries in order of precedence and take the first that matches.
#include "runtime.h"
#include <stdlib.h>

static bool loaded;  // the program's own entries are there: constant ones cannot be changed any more

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

bool table_has_priorities(const struct table *t) {
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

struct entry *table_lookup(struct table *t, const uint8_t *key) {
    struct entry *e = find(t, key);
    if (e && t->counts) e->count.packets++, e->count.bytes += arrived_length;
    if (e && t->ages) e->hit_ms = pipeline_now() / 1000000;
    return e;
}

// --- entries

struct entry *entry_new(const struct table *t) {
    struct entry *e = calloc(1, sizeof *e);
    if (!e || !(e->key = calloc(1, t->key_bytes)) || !(e->mask = calloc(1, t->key_bytes))) abort();
    e->meter = t->meter;
    return e;
}

void entry_free(struct entry *e) {
    free(e->key);
    free(e->mask);
    free(e);
}

void table_insert(struct table *t, struct entry *e) {
    struct entry **place;
    if (t->buckets) {
        place = &t->buckets[hash_key(e->key, t->key_bytes) % t->bucket_count];
    } else {
        bool priority = table_has_priorities(t);
        for (place = &t->ordered; *place; place = &(*place)->next)
            if (priority ? (*place)->priority > e->priority : (*place)->prefix < e->prefix) break;
    }
    e->handle = t->next_handle++;
    e->hit_ms = pipeline_now() / 1000000;
    e->next = *place;
    *place = e;
    t->entries++;
}

// The list that begins with `lists[i]`; NULL behind the last. An entry is removed by way of the pointer to it.
static struct entry **list(struct table *t, unsigned i) {
    if (!t->buckets) return i == 0 ? &t->ordered : NULL;
    return i < t->bucket_count ? &t->buckets[i] : NULL;
}

void table_each(struct table *t, void (*visit)(const struct table *, const struct entry *, void *), void *argument) {
    struct entry **place;
    for (unsigned i = 0; (place = list(t, i)); i++)
        for (struct entry *e = *place; e; e = e->next) visit(t, e, argument);
}

struct entry *table_same(struct table *t, const struct entry *wanted) {
    struct entry **place;
    for (unsigned i = 0; (place = list(t, i)); i++)
        for (struct entry *e = *place; e; e = e->next)
            if (!memcmp(e->key, wanted->key, t->key_bytes) && !memcmp(e->mask, wanted->mask, t->key_bytes) && e->priority == wanted->priority)
                return e;
    return NULL;
}

struct entry *table_entry(struct table *t, uint32_t handle) {
    struct entry **place;
    for (unsigned i = 0; (place = list(t, i)); i++)
        for (struct entry *e = *place; e; e = e->next)
            if (e->handle == handle) return e;
    return NULL;
}

void table_reset_counts(struct table *t) {
    struct entry **place;
    for (unsigned i = 0; (place = list(t, i)); i++)
        for (struct entry *e = *place; e; e = e->next) e->count = (struct count){0};
}

void table_set_meters(struct table *t, const struct meter *meter) {
    struct entry **place;
    t->meter = *meter;
    for (unsigned i = 0; (place = list(t, i)); i++)
        for (struct entry *e = *place; e; e = e->next) e->meter = *meter;
}

static void remove_at(struct table *t, struct entry **place) {
    struct entry *e = *place;
    *place = e->next;
    t->entries--;
    if (t->profile) action_profile_refer(t->profile, &e->to, (struct reference){0});
    entry_free(e);
}

bool table_remove(struct table *t, uint32_t handle) {
    struct entry **place;
    for (unsigned i = 0; (place = list(t, i)); i++)
        for (; *place; place = &(*place)->next)
            if ((*place)->handle == handle) return remove_at(t, place), true;
    return false;
}

void table_clear(struct table *t) {
    struct entry **place;
    for (unsigned i = 0; (place = list(t, i)); i++)
        while (*place) remove_at(t, place);
    t->next_handle = 0;  // as BMv2
}

// --- all tables

bool table_is_constant(const struct table *t) { return t->constant && loaded; }

void table_reset_default(struct table *t) {
    if (t->profile) action_profile_refer(t->profile, &t->default_to, (struct reference){0});
    t->default_action = t->first_default;
    memcpy(t->default_data, t->first_default_data, sizeof t->default_data);
}

void tables_init(void) {
    for (struct table *const *t = program_tables; *t; t++) {
        table_reset_default(*t);
        if (all_exact(*t) && (*t)->key_count) {
            (*t)->bucket_count = (*t)->size * 2 + 1;
            (*t)->buckets = calloc((*t)->bucket_count, sizeof *(*t)->buckets);
            if (!(*t)->buckets) abort();
        }
    }
}

void tables_loaded(void) { loaded = true; }

void tables_reset(void) {
    for (struct table *const *t = program_tables; *t; t++) {
        if (!(*t)->constant) table_clear(*t);
        if (!(*t)->constant_default || (*t)->profile) table_reset_default(*t);
        (*t)->meter = (struct meter){0};
    }
}
