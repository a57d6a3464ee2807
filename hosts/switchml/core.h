/* The core of SwitchML's worker (worker.c). */
#pragma once

#include "../roce/core.h"
#include "../stream/core.h"

enum switchml_sizes {
    SWITCHML_LEVELS = 3, /* of switches, at most, from the workers to the job's root */
    SWITCHML_BLOCKS = 4, /* of a chunk, with an exponent each, at most */
};

typedef struct {
    int64_t round;    /* the next of the slot, or the one that is outstanding */
    int64_t next;     /* number of the chunk that it is about */
    bool ahead;       /* it goes ahead of the chunk's own, with an exponent and maybe the tensor's announcement */
    bool announced;   /* the chunk has had a round ahead */
    bool disputed;    /* its tensor's tags differ: the next round ahead has the announcement itself */
    uint8_t agreed[SWITCHML_BLOCKS]; /* the chunk's exponents */
    int32_t giver;    /* the worker whose floats its round carries; -1: it carries everybody's integers */
    double *floats;   /* (k,), the sum of those that have come */
    int64_t seen[SWITCHML_LEVELS]; /* bitmaps of switches that have answered, from the one next to the workers on; -1: not known */
    bool newer;       /* a switch serves a newer group */
} Slot;

typedef struct {
    Stream stream;
    Slot *slots; /* one a row of the stream */
    int32_t worker; /* number of it below its switch */
    bool racks;     /* there are several */
    bool whole;     /* all packets have vectors: where one worker alone gives something, the others' are zeros */
    int32_t blocks; /* of a chunk. Where there are several, their exponents precede the packet in memory, else it has the only one */
} SwitchML;

SwitchML *switchml_new(int32_t slots, int32_t k, int32_t recovery, const Datagrams *packets, int32_t packet_bytes);
void switchml_join(SwitchML *, int32_t job, int32_t rank, uint32_t epoch, int32_t worker, int32_t workers, bool racks);
void switchml_free(SwitchML *);
void switchml_start(SwitchML *, const Transfer *, double now);
bool switchml_received(SwitchML *, const Datagrams *, double now);
void switchml_ask_whom(SwitchML *, int64_t row);

/* The same over RoCE (rdma.c): a chunk is a message of several packets, each in a slot of the switches' pool. */
typedef struct {
    SwitchML switchml;
    RoceEndpoint endpoint;
    Datagrams packets;   /* for each slot: what connects it, a message, and the queries about one */
    int32_t message;     /* packets */
    bool *connected;     /* by slot: something has come from the switch */
    uint8_t *landing;    /* where results are written, by slot: those of one set, of the other, and what is no vector */
    uint8_t *taken;      /* a result in the shape that SwitchML takes in */
    const uint32_t *numbers; /* of this end's queue pairs where the interface is another's (RoceWork), which has the landing, too; or NULL */
} SwitchMLRdma;

SwitchMLRdma *rdma_new(
    int32_t pairs, int32_t message, int32_t k, int32_t recovery, const Datagrams *messages, int32_t message_bytes, const Datagrams *packets);
void rdma_join(SwitchMLRdma *, uint32_t own, uint32_t other, uint16_t own_port, uint16_t port);
void rdma_use_interface(SwitchMLRdma *, const uint32_t *numbers, uint32_t key);
int64_t rdma_landing_bytes(const SwitchMLRdma *);
void rdma_free(SwitchMLRdma *);
bool rdma_received(SwitchMLRdma *, const Datagrams *, double now);
