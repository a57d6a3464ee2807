// Multicast groups of nodes (a replication id and its ports) and mirroring sessions, as simple_switch keeps them.
#include "runtime.h"
#include <stdlib.h>

#define MAX_GROUP 65536
#define MAX_SESSION 32768

struct node { bool used; uint16_t rid; unsigned count; uint16_t *ports; };
struct group { unsigned node_count, copy_count; uint32_t *nodes; struct copy *copies; };

static struct node *nodes;
static uint32_t node_total;
static struct group *groups[MAX_GROUP];
static struct mirror *mirrors[MAX_SESSION];

unsigned multicast_copies(unsigned group, const struct copy **copies) {
    if (group >= MAX_GROUP || !groups[group]) return 0;
    *copies = groups[group]->copies;
    return groups[group]->copy_count;
}

const struct mirror *mirror_session(unsigned session) {
    return session < MAX_SESSION ? mirrors[session] : NULL;
}

static void *grown(void *memory, size_t bytes) {
    memory = realloc(memory, bytes ? bytes : 1);
    if (!memory) abort();
    return memory;
}

static void rebuild(struct group *g) {
    unsigned total = 0;
    for (unsigned i = 0; i < g->node_count; i++) total += nodes[g->nodes[i]].count;
    g->copies = grown(g->copies, total * sizeof *g->copies);
    g->copy_count = 0;
    for (unsigned i = 0; i < g->node_count; i++)
        for (unsigned p = 0; p < nodes[g->nodes[i]].count; p++)
            g->copies[g->copy_count++] = (struct copy){nodes[g->nodes[i]].ports[p], nodes[g->nodes[i]].rid};
}

static bool group_number(const char *text, uint64_t *n, bool must_exist, struct reply *reply) {
    if (!parse_uint(text, MAX_GROUP - 1, n)) return fail(reply, "%s is not a multicast group", text), false;
    if (must_exist && !groups[*n]) return fail(reply, "there is no multicast group %s", text), false;
    return true;
}

static bool node_number(const char *text, uint64_t *n, struct reply *reply) {
    if (!parse_uint(text, UINT32_MAX, n) || *n >= node_total || !nodes[*n].used)
        return fail(reply, "there is no multicast node %s", text), false;
    return true;
}

// the ports from argv[2] on, into an empty node
static bool node_ports(int argc, char **argv, struct node *made, struct reply *reply) {
    uint64_t port;
    made->ports = grown(NULL, (size_t)argc * sizeof *made->ports);
    for (int i = 2; i < argc && !reply->failed; i++) {
        if (!strcmp(argv[i], "|")) fail(reply, "link aggregation groups are not supported");
        else if (!parse_uint(argv[i], MAX_PORTS - 2, &port)) fail(reply, "%s is not a port", argv[i]);
        else made->ports[made->count++] = (uint16_t)port;
        for (unsigned before = 0; !reply->failed && before + 1 < made->count; before++)
            if (made->ports[before] == port) fail(reply, "port %s is given twice", argv[i]);
    }
    if (reply->failed) free(made->ports);
    return !reply->failed;
}

static void node_create(int argc, char **argv, struct reply *reply) {
    uint64_t rid;
    if (!parse_uint(argv[1], 65535, &rid)) return fail(reply, "%s is not a replication id", argv[1]);
    struct node made = {true, (uint16_t)rid, 0, NULL};
    if (!node_ports(argc, argv, &made, reply)) return;
    nodes = grown(nodes, (node_total + 1) * sizeof *nodes);
    nodes[node_total] = made;
    say(reply, "node was created with handle %u\n", node_total++);
}

static void change_group(char **argv, struct reply *reply, bool add) {
    uint64_t g, n;
    if (!group_number(argv[1], &g, true, reply) || !node_number(argv[2], &n, reply)) return;
    struct group *group = groups[g];
    unsigned at = 0;
    while (at < group->node_count && group->nodes[at] != n) at++;
    if (add == (at < group->node_count))
        return fail(reply, "node %s is %s group %s", argv[2], add ? "already in" : "not in", argv[1]);
    if (add) {
        group->nodes = grown(group->nodes, (group->node_count + 1) * sizeof *group->nodes);
        group->nodes[group->node_count++] = (uint32_t)n;
    } else {
        memmove(group->nodes + at, group->nodes + at + 1, (--group->node_count - at) * sizeof *group->nodes);
    }
    rebuild(group);
}

static void node_update(int argc, char **argv, struct reply *reply) {
    uint64_t n;
    if (!node_number(argv[1], &n, reply)) return;
    struct node made = {true, nodes[n].rid, 0, NULL};
    if (!node_ports(argc, argv, &made, reply)) return;
    free(nodes[n].ports);
    nodes[n] = made;
    for (unsigned g = 0; g < MAX_GROUP; g++)
        if (groups[g]) rebuild(groups[g]);
}

static void dump(int argc, char **argv, struct reply *reply) {
    (void)argc, (void)argv;
    for (unsigned g = 0; g < MAX_GROUP; g++) {
        if (!groups[g]) continue;
        say(reply, "mgrp(%u)\n", g);
        for (unsigned i = 0; i < groups[g]->node_count; i++) {
            const struct node *n = &nodes[groups[g]->nodes[i]];
            say(reply, "  -> (L1h=%u, rid=%u) -> (ports=[", groups[g]->nodes[i], n->rid);
            for (unsigned p = 0; p < n->count; p++) say(reply, "%s%u", p ? ", " : "", n->ports[p]);
            say(reply, "])\n");
        }
    }
}

static void node_destroy(int argc, char **argv, struct reply *reply) {
    (void)argc;
    uint64_t n;
    if (!node_number(argv[1], &n, reply)) return;
    for (unsigned g = 0; g < MAX_GROUP; g++)
        for (unsigned i = 0; groups[g] && i < groups[g]->node_count; i++)
            if (groups[g]->nodes[i] == n) {
                memmove(groups[g]->nodes + i, groups[g]->nodes + i + 1, (--groups[g]->node_count - i) * sizeof(uint32_t));
                rebuild(groups[g]);
                break;
            }
    free(nodes[n].ports);
    nodes[n].used = false;
}

static void add_session(char **argv, struct reply *reply, bool group) {
    uint64_t session, to;
    if (!parse_uint(argv[1], MAX_SESSION - 1, &session)) return fail(reply, "%s is not a mirroring session", argv[1]);
    if (!parse_uint(argv[2], group ? MAX_GROUP - 1 : MAX_PORTS - 2, &to))
        return fail(reply, "%s is not a %s", argv[2], group ? "multicast group" : "port");
    mirrors[session] = grown(mirrors[session], sizeof *mirrors[session]);
    *mirrors[session] = group ? (struct mirror){false, true, 0, (uint16_t)to} : (struct mirror){true, false, (uint16_t)to, 0};
}

static void group_destroy(unsigned g) {
    free(groups[g]->nodes);
    free(groups[g]->copies);
    free(groups[g]);
    groups[g] = NULL;
}

void replication_reset(void) {
    for (unsigned g = 0; g < MAX_GROUP; g++)
        if (groups[g]) group_destroy(g);
    for (uint32_t n = 0; n < node_total; n++)
        if (nodes[n].used) free(nodes[n].ports);
    node_total = 0;
}

// --- commands

static void group_create(int argc, char **argv, struct reply *reply) {
    (void)argc;
    uint64_t n;
    if (!group_number(argv[1], &n, false, reply)) return;
    if (groups[n]) return fail(reply, "there is a multicast group %s", argv[1]);
    groups[n] = grown(NULL, sizeof *groups[n]);
    *groups[n] = (struct group){0};
}

static void destroy_group(int argc, char **argv, struct reply *reply) {
    (void)argc;
    uint64_t n;
    if (group_number(argv[1], &n, true, reply)) group_destroy((unsigned)n);
}

static void associate(int argc, char **argv, struct reply *reply) { (void)argc, change_group(argv, reply, true); }
static void dissociate(int argc, char **argv, struct reply *reply) { (void)argc, change_group(argv, reply, false); }
static void mirror_to_port(int argc, char **argv, struct reply *reply) { (void)argc, add_session(argv, reply, false); }
static void mirror_to_group(int argc, char **argv, struct reply *reply) { (void)argc, add_session(argv, reply, true); }

static void mirror_delete(int argc, char **argv, struct reply *reply) {
    (void)argc;
    uint64_t n;
    if (!parse_uint(argv[1], MAX_SESSION - 1, &n) || !mirrors[n]) return fail(reply, "there is no session %s", argv[1]);
    free(mirrors[n]);
    mirrors[n] = NULL;
}

static void mirror_get(int argc, char **argv, struct reply *reply) {
    (void)argc;
    uint64_t n;
    if (!parse_uint(argv[1], MAX_SESSION - 1, &n) || !mirrors[n]) return fail(reply, "there is no session %s", argv[1]);
    say(reply, "session %u: %s %u\n", (unsigned)n, mirrors[n]->to_group ? "group" : "port", mirrors[n]->to_group ? mirrors[n]->group : mirrors[n]->port);
}

const struct command replication_commands[] = {
    {"mc_mgrp_create", 2, 2, group_create, "GROUP"},
    {"mc_mgrp_destroy", 2, 2, destroy_group, "GROUP"},
    {"mc_node_create", 2, MANY, node_create, "RID PORT..."},
    {"mc_node_update", 2, MANY, node_update, "NODE PORT..."},
    {"mc_node_associate", 3, 3, associate, "GROUP NODE"},
    {"mc_node_dissociate", 3, 3, dissociate, "GROUP NODE"},
    {"mc_node_destroy", 2, 2, node_destroy, "NODE"},
    {"mc_dump", 1, 1, dump, ""},
    {"mirroring_add", 3, 3, mirror_to_port, "SESSION PORT"},
    {"mirroring_add_mc", 3, 3, mirror_to_group, "SESSION GROUP"},
    {"mirroring_delete", 2, 2, mirror_delete, "SESSION"},
    {"mirroring_get", 2, 2, mirror_get, "SESSION"},
    {0},
};
