// The switch without interfaces, for tests and labs: records on standard input and output, each
//     kind or port (2 bytes, big-endian), length (4 bytes, big-endian), bytes
// In: a packet for a port, or a command (COMMAND). Out: the packets sent, or the answer (ANSWER, REFUSAL); then END.
// Deterministic: a record is handled to its end, resubmissions and recirculations included, before the next is read.
#include "runtime.h"
#include <stdlib.h>

#define COMMAND 0xfff0u
#define ANSWER 0xfff1u
#define REFUSAL 0xfff2u
#define END 0xfff3u
#define MAX_ROUNDS 4096  // of resubmission and recirculation that one packet may cause

static void write_record(unsigned kind, const void *data, size_t length) {
    uint8_t head[6];
    store16(head, kind);
    store32(head + 2, length);
    fwrite(head, 1, sizeof head, stdout);
    fwrite(data, 1, length, stdout);
}

void offline_write(unsigned port, const uint8_t *data, size_t length) { write_record(port, data, length); }

static void command(char *line) {
    struct reply reply = {0};
    control_execute(line, &reply);
    write_record(reply.failed ? REFUSAL : ANSWER, reply.text ? reply.text : "", reply.length);
    free(reply.text);
}

int offline_run(unsigned ports) {
    static uint8_t data[1 << 20];
    uint8_t head[6];
    for (unsigned port = 0; port < ports; port++) port_add_virtual(port);
    while (fread(head, 1, sizeof head, stdin) == sizeof head) {
        unsigned kind = (unsigned)load16(head);
        size_t length = load32(head + 2);
        if (length >= sizeof data || fread(data, 1, length, stdin) != length) return 1;
        data[length] = 0;
        if (kind == COMMAND) {
            command((char *)data);
        } else if (port_exists(kind) && length <= MAX_PACKET) {
            port_counts[kind].received++;
            pipeline_receive(kind, data, length);
            for (unsigned n = 0; n < MAX_ROUNDS && pipeline_again(); n++) continue;
        }
        write_record(END, NULL, 0);
        fflush(stdout);
    }
    return 0;
}
