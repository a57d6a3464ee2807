// Action profiles: members, which are actions with their data, and groups of members; the entries of tables refer to them.
// As in BMv2 (bm_sim/action_profile.cpp): a new handle is the lowest free one, the declared size is ignored, what is still
// referred to cannot be deleted, and of a group the (hash modulo its size)-th member runs, in the order of handles.
#include "runtime.h"
#include <stdlib.h>

struct member { bool used; unsigned references, action; uint64_t data[MAX_ACTION_WORDS]; };
struct group { bool used; unsigned references, count, room; uint32_t *members; };  // in the order of handles

struct chosen action_profile_choose(const struct table *t, const struct entry *e, uint32_t hash) {
    const struct action_profile *p = t->profile;
    struct reference to = e ? e->to : t->default_to;
    if (to.kind == TO_NOTHING) return (struct chosen){t->action_count, NULL};
    uint32_t member = to.handle;
    if (to.kind == TO_GROUP) {
        const struct group *g = &p->groups[to.handle];
        if (!g->count) {
            log_message("table %s: a packet found group %u of %s empty, and no action runs", t->name, to.handle, p->name);
            return (struct chosen){t->action_count, NULL};
        }
        member = g->members[hash % g->count];
    }
    unsigned action = p->members[member].action, number = t->profile_numbers[action];
    if (number == t->action_count) log_message("table %s lacks action %s of member %u, and no action runs", t->name, p->actions[action].name, member);
    return (struct chosen){number, p->members[member].data};
}

// --- members and groups

static void *grown(void *array, uint32_t *count, size_t size) {
    array = realloc(array, (*count + 1) * size);
    if (!array) abort();
    memset((char *)array + *count * size, 0, size);
    ++*count;
    return array;
}

uint32_t action_profile_member(struct action_profile *p, unsigned action, const uint64_t *data) {
    uint32_t i = 0;
    while (i < p->member_count && p->members[i].used) i++;
    if (i == p->member_count) p->members = grown(p->members, &p->member_count, sizeof *p->members);
    p->members[i] = (struct member){.used = true, .action = action};
    memcpy(p->members[i].data, data, sizeof p->members[i].data);
    return i;
}

uint32_t action_profile_group(struct action_profile *p) {
    uint32_t i = 0;
    while (i < p->group_count && p->groups[i].used) i++;
    if (i == p->group_count) p->groups = grown(p->groups, &p->group_count, sizeof *p->groups);
    p->groups[i] = (struct group){.used = true};
    return i;
}

bool action_profile_has(const struct action_profile *p, struct reference to) {
    if (to.kind == TO_GROUP) return to.handle < p->group_count && p->groups[to.handle].used;
    return to.handle < p->member_count && p->members[to.handle].used;
}

void action_profile_modify(struct action_profile *p, uint32_t member, unsigned action, const uint64_t *data) {
    p->members[member].action = action;
    memcpy(p->members[member].data, data, sizeof p->members[member].data);
}

unsigned action_profile_size(const struct action_profile *p, uint32_t group) { return p->groups[group].count; }

static unsigned *references(struct action_profile *p, struct reference to) {
    return to.kind == TO_GROUP ? &p->groups[to.handle].references : &p->members[to.handle].references;
}

void action_profile_refer(struct action_profile *p, struct reference *from, struct reference to) {
    if (to.kind != TO_NOTHING) ++*references(p, to);
    if (from->kind != TO_NOTHING) --*references(p, *from);
    *from = to;
}

static void take_out(struct action_profile *p, struct group *g, unsigned at) {
    p->members[g->members[at]].references--;
    memmove(g->members + at, g->members + at + 1, (--g->count - at) * sizeof *g->members);
}

bool action_profile_delete(struct action_profile *p, struct reference what) {
    if (*references(p, what)) return false;
    if (what.kind == TO_MEMBER) return p->members[what.handle].used = false, true;
    struct group *g = &p->groups[what.handle];
    while (g->count) take_out(p, g, g->count - 1);
    free(g->members);
    *g = (struct group){0};
    return true;
}

// where a member is in a group, or belongs
static unsigned position(const struct group *g, uint32_t member) {
    unsigned at = 0;
    while (at < g->count && g->members[at] < member) at++;
    return at;
}

bool action_profile_join(struct action_profile *p, uint32_t member, uint32_t group) {
    struct group *g = &p->groups[group];
    unsigned at = position(g, member);
    if (at < g->count && g->members[at] == member) return false;
    if (g->count == g->room) {
        g->room = g->room ? 2 * g->room : 8;
        g->members = realloc(g->members, g->room * sizeof *g->members);
        if (!g->members) abort();
    }
    memmove(g->members + at + 1, g->members + at, (g->count++ - at) * sizeof *g->members);
    g->members[at] = member;
    p->members[member].references++;
    return true;
}

bool action_profile_part(struct action_profile *p, uint32_t member, uint32_t group) {
    struct group *g = &p->groups[group];
    unsigned at = position(g, member);
    if (at == g->count || g->members[at] != member) return false;
    take_out(p, g, at);
    return true;
}

void action_profiles_reset(void) {
    for (struct action_profile *const *p = program_action_profiles; *p; p++) {
        for (uint32_t i = 0; i < (*p)->group_count; i++) free((*p)->groups[i].members);
        (*p)->group_count = (*p)->member_count = 0;
    }
}

// --- what there is

void action_profile_say_member(const struct action_profile *p, uint32_t member, struct reply *reply) {
    const struct member *m = &p->members[member];
    say(reply, "mbr %u:", member);
    say_action(&p->actions[m->action], m->data, reply);
    say(reply, "\n");
}

void action_profile_say_group(const struct action_profile *p, uint32_t group, struct reply *reply) {
    const struct group *g = &p->groups[group];
    say(reply, "group %u:", group);
    for (unsigned i = 0; i < g->count; i++) say(reply, " %u", g->members[i]);
    say(reply, "\n");
}
