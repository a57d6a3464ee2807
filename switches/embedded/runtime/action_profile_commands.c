// Commands on action profiles and on tables that refer to them, as simple_switch_CLI has them.
#include "runtime.h"

static const char *profile_name(unsigned i) { return program_action_profiles[i] ? program_action_profiles[i]->name : NULL; }

// a table that an action profile implements
static struct table *indirect_table(const char *name, struct reply *reply) {
    struct table *t = find_table(name, reply);
    if (t && !t->profile) fail(reply, "table %s has no action profile: use table_add and its like", t->name);
    return t && t->profile ? t : NULL;
}

// the profile that a command names: by its own name, or in the older commands (table_indirect_…) by a table's
static struct action_profile *profile_of(char **argv, struct reply *reply) {
    if (!strncmp(argv[0], "table_indirect", 14)) {
        struct table *t = indirect_table(argv[1], reply);
        return t ? t->profile : NULL;
    }
    int i = find_name("action profile", argv[1], profile_name, NULL, reply);
    return i < 0 ? NULL : program_action_profiles[i];
}

// a member or group by its handle; false, with a reason: there is none
static bool parse_reference(const struct action_profile *p, enum reference_kind kind, const char *text, struct reference *to,
                            struct reply *reply) {
    const char *what = kind == TO_GROUP ? "group" : "member";
    uint64_t handle;
    if (kind == TO_GROUP && !p->selects) return fail(reply, "%s is no action_selector, and has no groups", p->name), false;
    if (!parse_uint(text, UINT32_MAX, &handle)) return fail(reply, "%s is not a handle of a %s", text, what), false;
    *to = (struct reference){kind, (uint32_t)handle};
    if (!action_profile_has(p, *to)) return fail(reply, "%s has no %s %s", p->name, what, text), false;
    return true;
}

// as parse_reference, for an entry, whose group must have a member
static bool parse_target(const struct action_profile *p, enum reference_kind kind, const char *text, struct reference *to,
                         struct reply *reply) {
    if (!parse_reference(p, kind, text, to, reply)) return false;
    if (kind == TO_MEMBER || action_profile_size(p, to->handle)) return true;
    return fail(reply, "group %u of %s is empty: add a member first", to->handle, p->name), false;
}

// --- members and groups

static int find_member_action(const struct action_profile *p, const char *name, struct reply *reply) {
    return find_action("action profile", p->name, p->actions, p->action_count, name, reply);
}

static void create_member(int argc, char **argv, struct reply *reply) {
    struct action_profile *p = profile_of(argv, reply);
    int action = p ? find_member_action(p, argv[2], reply) : -1;
    uint64_t data[MAX_ACTION_WORDS] = {0};
    if (action < 0 || !action_data(argc, argv, 3, &p->actions[action], data, reply)) return;
    say(reply, "Member has been created with handle %u\n", action_profile_member(p, (unsigned)action, data));
}

static void modify_member(int argc, char **argv, struct reply *reply) {
    struct action_profile *p = profile_of(argv, reply);
    int action = p ? find_member_action(p, argv[2], reply) : -1;
    struct reference member;
    uint64_t data[MAX_ACTION_WORDS] = {0};
    if (action < 0 || !parse_reference(p, TO_MEMBER, argv[3], &member, reply)) return;
    if (action_data(argc, argv, 4, &p->actions[action], data, reply)) action_profile_modify(p, member.handle, (unsigned)action, data);
}

static void delete(char **argv, enum reference_kind kind, struct reply *reply) {
    struct action_profile *p = profile_of(argv, reply);
    struct reference what;
    if (!p || !parse_reference(p, kind, argv[2], &what, reply)) return;
    if (!action_profile_delete(p, what)) fail(reply, "%s %s of %s is still used", kind == TO_GROUP ? "group" : "member", argv[2], p->name);
}

static void delete_member(int argc, char **argv, struct reply *reply) {
    (void)argc;
    delete(argv, TO_MEMBER, reply);
}

static void delete_group(int argc, char **argv, struct reply *reply) {
    (void)argc;
    delete(argv, TO_GROUP, reply);
}

static void create_group(int argc, char **argv, struct reply *reply) {
    (void)argc;
    struct action_profile *p = profile_of(argv, reply);
    if (!p) return;
    if (!p->selects) return fail(reply, "%s is no action_selector, and has no groups", p->name);
    say(reply, "Group has been created with handle %u\n", action_profile_group(p));
}

// PROFILE MEMBER GROUP
static struct action_profile *member_and_group(char **argv, struct reference *member, struct reference *group, struct reply *reply) {
    struct action_profile *p = profile_of(argv, reply);
    if (!p || !parse_reference(p, TO_GROUP, argv[3], group, reply)) return NULL;
    return parse_reference(p, TO_MEMBER, argv[2], member, reply) ? p : NULL;
}

static void add_to_group(int argc, char **argv, struct reply *reply) {
    (void)argc;
    struct reference member, group;
    struct action_profile *p = member_and_group(argv, &member, &group, reply);
    if (p && !action_profile_join(p, member.handle, group.handle)) fail(reply, "group %s has member %s", argv[3], argv[2]);
}

static void remove_from_group(int argc, char **argv, struct reply *reply) {
    (void)argc;
    struct reference member, group;
    struct action_profile *p = member_and_group(argv, &member, &group, reply);
    if (p && !action_profile_part(p, member.handle, group.handle)) fail(reply, "group %s has no member %s", argv[3], argv[2]);
}

// --- tables

static void add_reference(int argc, char **argv, enum reference_kind kind, struct reply *reply) {
    struct table *t = indirect_table(argv[1], reply);
    struct entry *e = t ? parse_entry(t, argc, argv, 2, kind == TO_GROUP ? "a reference to a group" : "a reference to a member", 1, reply) : NULL;
    struct reference to;
    if (!e) return;
    if (!parse_target(t->profile, kind, argv[3 + t->key_count], &to, reply)) return entry_free(e);
    action_profile_refer(t->profile, &e->to, to);
    table_insert(t, e);
    say(reply, "Entry has been added with handle %u\n", e->handle);
}

static void add_member(int argc, char **argv, struct reply *reply) { add_reference(argc, argv, TO_MEMBER, reply); }
static void add_group(int argc, char **argv, struct reply *reply) { add_reference(argc, argv, TO_GROUP, reply); }

static void delete_entry(int argc, char **argv, struct reply *reply) {
    (void)argc;
    struct table *t = indirect_table(argv[1], reply);
    const struct entry *e = t ? find_entry(t, argv[2], reply) : NULL;
    if (e) table_remove(t, e->handle);
}

static void modify_reference(char **argv, enum reference_kind kind, struct reply *reply) {
    struct table *t = indirect_table(argv[1], reply);
    struct entry *e = t ? find_entry(t, argv[2], reply) : NULL;
    struct reference to;
    if (!e || !parse_target(t->profile, kind, argv[3], &to, reply)) return;
    action_profile_refer(t->profile, &e->to, to);
}

static void modify_to_member(int argc, char **argv, struct reply *reply) {
    (void)argc;
    modify_reference(argv, TO_MEMBER, reply);
}

static void modify_to_group(int argc, char **argv, struct reply *reply) {
    (void)argc;
    modify_reference(argv, TO_GROUP, reply);
}

static void set_default(char **argv, enum reference_kind kind, struct reply *reply) {
    struct table *t = indirect_table(argv[1], reply);
    struct reference to;
    if (t && parse_reference(t->profile, kind, argv[2], &to, reply)) action_profile_refer(t->profile, &t->default_to, to);
}

static void default_member(int argc, char **argv, struct reply *reply) {
    (void)argc;
    set_default(argv, TO_MEMBER, reply);
}

static void default_group(int argc, char **argv, struct reply *reply) {
    (void)argc;
    set_default(argv, TO_GROUP, reply);
}

static void reset_default(int argc, char **argv, struct reply *reply) {
    (void)argc;
    struct table *t = indirect_table(argv[1], reply);
    if (t) table_reset_default(t);
}

// --- what there is

static void dump(int argc, char **argv, struct reply *reply) {
    (void)argc;
    const struct action_profile *p = profile_of(argv, reply);
    if (!p) return;
    for (uint32_t i = 0; i < p->member_count; i++)
        if (action_profile_has(p, (struct reference){TO_MEMBER, i})) action_profile_say_member(p, i, reply);
    for (uint32_t i = 0; i < p->group_count; i++)
        if (action_profile_has(p, (struct reference){TO_GROUP, i})) action_profile_say_group(p, i, reply);
}

static void dump_member(int argc, char **argv, struct reply *reply) {
    (void)argc;
    const struct action_profile *p = profile_of(argv, reply);
    struct reference to;
    if (p && parse_reference(p, TO_MEMBER, argv[2], &to, reply)) action_profile_say_member(p, to.handle, reply);
}

static void dump_group(int argc, char **argv, struct reply *reply) {
    (void)argc;
    const struct action_profile *p = profile_of(argv, reply);
    struct reference to;
    if (p && parse_reference(p, TO_GROUP, argv[2], &to, reply)) action_profile_say_group(p, to.handle, reply);
}

const struct command action_profile_commands[] = {
    {"act_prof_create_member", 3, MANY, create_member, "PROFILE ACTION DATA..."},
    {"act_prof_modify_member", 4, MANY, modify_member, "PROFILE ACTION MEMBER DATA..."},
    {"act_prof_delete_member", 3, 3, delete_member, "PROFILE MEMBER"},
    {"act_prof_create_group", 2, 2, create_group, "PROFILE"},
    {"act_prof_delete_group", 3, 3, delete_group, "PROFILE GROUP"},
    {"act_prof_add_member_to_group", 4, 4, add_to_group, "PROFILE MEMBER GROUP"},
    {"act_prof_remove_member_from_group", 4, 4, remove_from_group, "PROFILE MEMBER GROUP"},
    {"act_prof_dump", 2, 2, dump, "PROFILE"},
    {"act_prof_dump_member", 3, 3, dump_member, "PROFILE MEMBER"},
    {"act_prof_dump_group", 3, 3, dump_group, "PROFILE GROUP"},
    {"table_indirect_create_member", 3, MANY, create_member, "TABLE ACTION DATA..."},
    {"table_indirect_modify_member", 4, MANY, modify_member, "TABLE ACTION MEMBER DATA..."},
    {"table_indirect_delete_member", 3, 3, delete_member, "TABLE MEMBER"},
    {"table_indirect_create_group", 2, 2, create_group, "TABLE"},
    {"table_indirect_delete_group", 3, 3, delete_group, "TABLE GROUP"},
    {"table_indirect_add_member_to_group", 4, 4, add_to_group, "TABLE MEMBER GROUP"},
    {"table_indirect_remove_member_from_group", 4, 4, remove_from_group, "TABLE MEMBER GROUP"},
    {"table_indirect_add", 4, MANY, add_member, "TABLE KEY... => MEMBER [PRIORITY]"},
    {"table_indirect_add_with_group", 4, MANY, add_group, "TABLE KEY... => GROUP [PRIORITY]"},
    {"table_indirect_delete", 3, 3, delete_entry, "TABLE HANDLE"},
    {"table_indirect_modify", 4, 4, modify_to_member, "TABLE HANDLE MEMBER"},
    {"table_indirect_modify_with_group", 4, 4, modify_to_group, "TABLE HANDLE GROUP"},
    {"table_indirect_set_default", 3, 3, default_member, "TABLE MEMBER"},
    {"table_indirect_set_default_with_group", 3, 3, default_group, "TABLE GROUP"},
    {"table_indirect_reset_default", 2, 2, reset_default, "TABLE"},
    {0},
};
