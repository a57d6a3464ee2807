// The parts of the runtime, as they know each other.
#ifndef RUNTIME_H
#define RUNTIME_H
#include "program.h"
#include <stdio.h>

#define MAX_PORTS 512  // egress_spec has 9 bits, and 511 drops

// --- reply.c: text that grows, for answers to commands
struct reply { char *text; size_t length, room; bool failed; };
void say(struct reply *reply, const char *format, ...) __attribute__((format(printf, 2, 3)));
void fail(struct reply *reply, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define MOST_OFFERED 12
void offer(struct reply *reply, unsigned number, const char *name);  // the names there are, one by one, after a wrong one

// --- words.c: the words of commands
#define MAX_NUMBER 256  // bytes of a number
bool parse_number(const char *text, unsigned width, uint8_t *bytes);  // big-endian, (width + 7) / 8 bytes
bool parse_uint(const char *text, uint64_t most, uint64_t *value);
bool parse_cell(const char *text, uint32_t size, uint64_t *cell);
bool name_matches(const char *full, const char *given);
// The number of the only name that is `given`, or ends in it; -1, with a reason, if there is none. name(i): NULL behind the last. The
// reason offers those names, and what there is `also` (NULL: nothing).
int find_name(const char *what, const char *given, const char *(*name)(unsigned), const char *(*also)(unsigned), struct reply *reply);
void say_number(struct reply *reply, const uint8_t *bytes, unsigned size);  // decimal

// --- commands; each file that has some lists them, and the list ends with an element without a name
#define MANY 0x7fff
struct command {
    const char *name;
    int least, most;  // words, the name among them
    void (*handle)(int argc, char **argv, struct reply *reply);
    const char *usage;  // the words behind the name
};
extern const struct command table_commands[], state_commands[], replication_commands[], queue_commands[], port_commands[],
    copies_commands[], pipeline_commands[], meter_commands[], digest_commands[], crc_commands[], trace_commands[], gate_commands[],
    value_set_commands[], action_profile_commands[], disorder_commands[], control_commands[];

// --- command_names.c
const struct command *find_command(const char *name);             // NULL: none
void refuse_command(const char *name, struct reply *reply);       // what does instead, or what is near

// --- tables.c: entries and lookup
void tables_init(void);
void tables_loaded(void);  // the program's own entries are there
void tables_reset(void);
bool table_is_constant(const struct table *t);       // its entries cannot be changed
bool table_has_priorities(const struct table *t);    // its entries have
struct entry *entry_new(const struct table *t);
void entry_free(struct entry *e);
void table_insert(struct table *t, struct entry *e);  // and gives it a handle
struct entry *table_same(struct table *t, const struct entry *wanted);  // an entry of that key; NULL: none
struct entry *table_entry(struct table *t, uint32_t handle);            // NULL: none
bool table_remove(struct table *t, uint32_t handle);
void table_clear(struct table *t);
void table_reset_default(struct table *t);
void table_reset_counts(struct table *t);
void table_set_meters(struct table *t, const struct meter *meter);  // of the entries that there are and of those to come
void table_each(struct table *t, void (*visit)(const struct table *, const struct entry *, void *), void *argument);

// --- action_profiles.c: members and groups; deletions fail for what is referred to
uint32_t action_profile_member(struct action_profile *p, unsigned action, const uint64_t *data);  // a new one's handle
uint32_t action_profile_group(struct action_profile *p);                                          // likewise
bool action_profile_has(const struct action_profile *p, struct reference to);
void action_profile_modify(struct action_profile *p, uint32_t member, unsigned action, const uint64_t *data);
bool action_profile_delete(struct action_profile *p, struct reference what);
bool action_profile_join(struct action_profile *p, uint32_t member, uint32_t group);  // false: it was there
bool action_profile_part(struct action_profile *p, uint32_t member, uint32_t group);  // false: it was not there
unsigned action_profile_size(const struct action_profile *p, uint32_t group);
void action_profile_refer(struct action_profile *p, struct reference *from, struct reference to);  // from now on to another
void action_profile_say_member(const struct action_profile *p, uint32_t member, struct reply *reply);
void action_profile_say_group(const struct action_profile *p, uint32_t group, struct reply *reply);
void action_profiles_reset(void);

// --- entry_words.c: tables, entries and actions in the words of commands; each says in the reply why it fails
struct table *find_table(const char *name, struct reply *reply);                        // NULL: none
struct entry *find_entry(struct table *t, const char *handle, struct reply *reply);     // NULL: none
// the number of an action of a table or an action profile (`what`) by the name `of`; -1: none
int find_action(const char *what, const char *of, const struct action_info *actions, unsigned count, const char *name, struct reply *reply);
bool parse_data(const struct action_info *action, char **argv, uint64_t *data, struct reply *reply);
// an action's parameters, all words from `start` on, behind an optional =>
bool action_data(int argc, char **argv, int start, const struct action_info *action, uint64_t *data, struct reply *reply);
// A new entry, not yet in its table, from KEY... => WORDS... [PRIORITY] at argv[first]; `action` takes as many words as are
// `wanted`. NULL: it does not fit.
struct entry *parse_entry(struct table *t, int argc, char **argv, int first, const char *action, unsigned wanted, struct reply *reply);
// A new entry with the key of these words and, where the table's entries have priorities, that of the word behind them; likewise.
struct entry *parse_key(struct table *t, char **words, const char *priority, struct reply *reply);
void say_action(const struct action_info *action, const uint64_t *data, struct reply *reply);

// --- table_commands.c
// those of an entry by their name and the entry's handle, NULL with a reason: none; false: no table has some of that name
bool direct_counter(char **argv, struct count **found, struct reply *reply);
bool direct_meter(char **argv, struct entry **found, struct reply *reply);
bool direct_meter_set_all(char **argv, const struct meter *meter);  // false: no table has such meters
bool direct_counter_reset(char **argv);  // false: no table has such counters
const char *direct_counter_name(unsigned i);  // NULL behind the last
const char *direct_meter_name(unsigned i);

// --- state.c: registers and counters
void state_reset(void);
const char *counter_name(unsigned i);  // NULL behind the last

// --- value_sets.c, meters.c, digests.c
void value_sets_reset(void);
void meters_reset(void);
const char *meter_name(unsigned i);  // likewise
void digests_reset(void);

// --- replication.c: multicast groups and mirroring sessions
struct copy { uint16_t port, rid; };
struct mirror { bool to_port, to_group; uint16_t port, group; };
unsigned multicast_copies(unsigned group, const struct copy **copies);
const struct mirror *mirror_session(unsigned session);
void replication_reset(void);

// --- copies.c: the bound of what one packet may cause
struct family;  // a packet that arrived and all that has come of it; NULL where there is no bound
void copies_bound(uint64_t most);
struct family *family_found(void);
struct family *family_join(struct family *family);
void family_leave(struct family *family);
bool family_may_copy(struct family *family);  // one more clone, resubmission or recirculation; counts it
void copies_count_input_drop(void);
extern bool gate_closed;
void gate_left(int client);
bool gate_take(unsigned port, const uint8_t *data, size_t length);  // of a closed gate: whether this packet may pass
void trace_begin(void);  // a packet arrives: the steps of the one before are forgotten
void trace_egress(unsigned port);

// --- pipeline.c: ingress and egress
#define MAX_AGAIN 1024  // packets that wait to enter ingress once more; simple_switch's capacity
enum instance_type { NORMAL, INGRESS_CLONE, EGRESS_CLONE, COALESCED, RECIRCULATED, REPLICATED, RESUBMITTED };
// headers and metadata as ingress (or egress, for a clone) left them, with the bytes behind the headers;
// shared by the copies of a multicast
struct held {
    unsigned references;
    uint32_t arrived_length;
    int64_t current_length;
    size_t room, length, truncate_to;
    struct family *family;
    uint8_t *bytes;
    uint8_t phv[];
};
struct waiting { struct held *packet; uint16_t rid; uint32_t enqueued_us, depth; uint64_t due_ns; };
void packet_release(struct held *packet);
void pipeline_init(uint64_t seed);
void pipeline_receive(unsigned port, const uint8_t *data, size_t length);
bool pipeline_again(void);    // handle resubmitted and recirculated packets; true if some are left
uint64_t pipeline_now(void);  // ns since the switch started, or as set
void pipeline_set_clock(uint64_t ns);
// one packet through egress; its bytes go to `out` (MAX_PACKET) and their number is returned, 0 if none leaves the port
size_t pipeline_egress(unsigned port, const struct waiting *w, unsigned depth, uint8_t *out);

// --- queues.c: between ingress and egress
void queues_init(void);
void queues_turn(void);           // a turn of the event loop begins: it may send again as much as one turn sends
void queue_put(unsigned port, struct held *packet, uint16_t rid);
bool queues_drain(void);          // send what depths, rates and ports allow; true if this turn may send no more
int64_t queues_next_event(void);  // ns until a rate or a delay lets a packet go; -1: none is waiting for that
unsigned queue_length(unsigned port);

// --- disorder.c: what links do to packets other than losing them
void disorder_receive(unsigned port, const uint8_t *data, size_t length);  // hand a packet that has come to ingress, now or later
void disorder_send(unsigned port, const uint8_t *data, size_t length);     // send what is in the port's buffer, now or later
void disorder_deliver(void);         // what is due
void disorder_reset(void);           // links are in order again; what waits on them is lost
int64_t disorder_next_event(void);   // ns until something is due; -1: nothing waits

// --- ports.c: packets in and out of interfaces
struct port_counts { uint64_t received, sent, queue_drops, send_errors, ring_drops, oversize; };
extern struct port_counts port_counts[MAX_PORTS];
void port_add(unsigned port, const char *interface);  // exits with a message if it cannot
typedef void port_writer(unsigned port, const uint8_t *data, size_t length);
void port_add_virtual(unsigned port, port_writer *write);  // a port without an interface
bool port_exists(unsigned port);
int port_fd(unsigned port);
bool port_read(unsigned port);       // handle a batch; true if more is waiting
uint8_t *port_buffer(unsigned port); // room for one packet to send; NULL while the interface takes no more
void port_send(unsigned port, size_t length);
void ports_flush(void);
bool ports_turned(void);  // whether a port has been blocked since the last call, or takes packets again
void port_writable(unsigned port);
bool port_blocked(unsigned port);
void port_failed(unsigned port);     // read the error that the kernel keeps for the socket, so that it is kept no longer

// --- offloads.c: what a host's kernel leaves to its interface
#define TAG_BYTES 4  // of an 802.1Q or 802.1ad tag
struct tpacket2_hdr;
// Puts back the tag that the kernel keeps beside a received packet, in the TAG_BYTES of room before it, and finishes the
// checksums that it left unfinished; where the packet begins.
uint8_t *offloads_undo(const struct tpacket2_hdr *header, uint8_t *data, size_t *length);
void offloads_turn_off(unsigned port, int fd, const char *interface);  // at a veth peer in this network namespace

// --- offline.c: the switch without interfaces, packets on standard input and output
void switch_init(uint64_t seed);  // main.c, as the next one
int64_t next_event(void);         // ns until something waits no longer; -1: nothing does
int offline_run(unsigned ports, bool default_bound);

// --- controller_port.c: the port to a controller
bool controller_port_add(unsigned port, const char *path);  // false: there is one
int controller_port_fd(void);                               // of its listener; -1: there is none
void controller_port_accept(int epoll, uint64_t who);
bool controller_port_read(void);  // handle a batch; true if more is waiting

// --- socket.c: where the switch's sockets are in the file system
int socket_claim(const char *path, int type, int backlog);  // a listening socket, removed at the end; exits with a message if the path is not free

// --- control.c: commands from a file and from a socket
void control_open(const char *path);  // exits with a message if it cannot
int control_fd(void);
void control_accept(int epoll);
void control_serve(int client, int epoll);
extern int control_client;  // the descriptor of the client whose command is executed; -1 where it came by no socket
void control_execute(char *line, struct reply *reply);
void control_entries(const char *const *commands);  // exits with a message if one fails
void control_file(const char *path);  // exits with a message at the first command that fails

#endif
