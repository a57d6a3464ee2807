// The names of commands: who handles which, what is near a name that there is not, and what does instead.
#include "runtime.h"

static void help(int argc, char **argv, struct reply *reply);

static const struct command help_commands[] = {{"help", 1, 2, help, "[COMMAND]"}, {0}};
static const struct command *const lists[] = {
    table_commands, state_commands, replication_commands, queue_commands, port_commands, copies_commands, pipeline_commands,
    meter_commands, digest_commands, crc_commands, value_set_commands, action_profile_commands, trace_commands, gate_commands,
    disorder_commands, control_commands, help_commands};
#define LISTS (sizeof lists / sizeof *lists)

// commands of simple_switch_CLI that a compiled program cannot have, and what does instead
static const char *const substitutes[][2] = {
    {"load_new_config_file", "a switch runs one program: end it, and start the other program with its ports and commands"},
    {"swap_configs", "a switch runs one program: end it, and start the other program with its ports and commands"},
    {"write_config_to_file", "the program is compiled and has no JSON: its source is what it was built from"},
    {"serialize_state", "keep the commands that made the state; table_dump, register_read and counter_read show it"},
    {"port_add", "ports are given when the switch starts, with -i PORT@INTERFACE"},
    {"port_remove", "ports are given when the switch starts: set the interface down, as with ip link set INTERFACE down"},
    {"mc_set_lag_membership", "there are no link aggregation groups: give mc_node_create the ports"},
    {"mirroring_add_port_and_mgrp", "a session has a port or a group: use mirroring_add_mc with a group that has a node of that port"},
    {"set_toeplitz_hash_key", "there is no Toeplitz hash: choose another HashAlgorithm"},
    {"table_dump_member", "use act_prof_dump_member with the action profile"},
    {"table_dump_group", "use act_prof_dump_group with the action profile"},
    {"shell", "use a shell of your own"},
    {"greet", "there is nobody to greet"},
};

const struct command *find_command(const char *name) {
    for (unsigned i = 0; i < LISTS; i++)
        for (const struct command *c = lists[i]; c->name; c++)
            if (!strcmp(c->name, name)) return c;
    return NULL;
}

#define LONGEST 48  // letters of a name that are compared

// how many letters have to be changed, put in or left out to make one name of the other (Levenshtein)
static unsigned distance(const char *one, const char *other) {
    unsigned row[LONGEST + 1], n = (unsigned)strnlen(one, LONGEST), m = (unsigned)strnlen(other, LONGEST);
    for (unsigned j = 0; j <= m; j++) row[j] = j;
    for (unsigned i = 1; i <= n; i++) {
        unsigned before = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= m; j++) {
            unsigned changed = before + (one[i - 1] != other[j - 1]), fewer = row[j - 1] + 1, more = row[j] + 1;
            before = row[j];
            row[j] = changed < fewer ? changed : fewer;
            if (more < row[j]) row[j] = more;
        }
    }
    return row[m];
}

static const char *nearest(const char *name) {
    const char *found = NULL;
    unsigned least = (unsigned)strnlen(name, LONGEST) / 3 + 1;  // beyond which a name is another one
    for (unsigned i = 0; i < LISTS; i++)
        for (const struct command *c = lists[i]; c->name; c++) {
            unsigned far = distance(name, c->name);
            if (far < least) least = far, found = c->name;
        }
    return found;
}

void refuse_command(const char *name, struct reply *reply) {
    for (unsigned i = 0; i < sizeof substitutes / sizeof *substitutes; i++)
        if (!strcmp(substitutes[i][0], name)) return fail(reply, "there is no command %s here: %s", name, substitutes[i][1]);
    const char *near = nearest(name);
    if (near) return fail(reply, "there is no command %s: do you mean %s? (help lists all)", name, near);
    fail(reply, "there is no command %s: help lists all", name);
}

static void help(int argc, char **argv, struct reply *reply) {
    if (argc == 2) {
        const struct command *one = find_command(argv[1]);
        if (!one) return refuse_command(argv[1], reply);
        return say(reply, "%s%s%s\n", one->name, *one->usage ? " " : "", one->usage);
    }
    for (unsigned i = 0; i < LISTS; i++)
        for (const struct command *c = lists[i]; c->name; c++) say(reply, "%s%s%s\n", c->name, *c->usage ? " " : "", c->usage);
}
