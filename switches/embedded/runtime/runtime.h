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

// --- tables.c
void tables_init(void);
bool table_command(int argc, char **argv, struct reply *reply);  // false: not a table command
void tables_reset(void);

// --- state.c: registers and counters
bool state_command(int argc, char **argv, struct reply *reply);
void state_reset(void);
bool parse_number(const char *text, unsigned width, uint8_t *bytes);  // big-endian, (width + 7) / 8 bytes
bool parse_uint(const char *text, uint64_t most, uint64_t *value);
bool name_matches(const char *full, const char *given);

// --- replication.c: multicast groups and mirroring sessions
struct copy { uint16_t port, rid; };
struct mirror { bool to_port, to_group; uint16_t port, group; };
unsigned multicast_copies(unsigned group, const struct copy **copies);
const struct mirror *mirror_session(unsigned session);
bool replication_command(int argc, char **argv, struct reply *reply);
void replication_reset(void);

// --- pipeline.c: ingress, queues, egress
enum instance_type { NORMAL, INGRESS_CLONE, EGRESS_CLONE, COALESCED, RECIRCULATED, REPLICATED, RESUBMITTED };
void pipeline_init(uint64_t seed);
void pipeline_receive(unsigned port, const uint8_t *data, size_t length);
bool pipeline_again(void);        // handle resubmitted and recirculated packets; true if some are left
void pipeline_drain(void);        // send what queues, rates and ports allow
int64_t pipeline_next_event(void);  // ns until a rate lets a packet go; -1: none is waiting for that
uint64_t pipeline_now(void);      // ns since the switch started
bool pipeline_command(int argc, char **argv, struct reply *reply);

// --- ports.c: packets in and out of interfaces
struct port_counts { uint64_t received, sent, queue_drops, send_errors, ring_drops, oversize; };
extern struct port_counts port_counts[MAX_PORTS];
void port_add(unsigned port, const char *interface);  // exits with a message if it cannot
void port_add_virtual(unsigned port);
bool port_exists(unsigned port);
const char *port_interface(unsigned port);
int port_fd(unsigned port);
bool port_read(unsigned port);       // handle a batch; true if more is waiting
uint8_t *port_buffer(unsigned port); // room for one packet to send; NULL while the interface takes no more
void port_send(unsigned port, size_t length);
void ports_flush(void);
void port_writable(unsigned port);
bool port_blocked(unsigned port);
void port_read_statistics(unsigned port);

// --- offline.c: the switch without interfaces, packets on standard input and output
int offline_run(unsigned ports);
void offline_write(unsigned port, const uint8_t *data, size_t length);

// --- control.c: commands from a file and from a socket
void control_open(const char *path);  // exits with a message if it cannot
void control_close(void);
int control_fd(void);
void control_accept(int epoll);
void control_serve(int client, int epoll);
void control_execute(char *line, struct reply *reply);
void control_file(const char *path);  // exits with a message at the first command that fails

#endif
