/* The core of SwitchML's worker (worker.c). */
#pragma once

#include "../stream/core.h"

enum switchml_sizes { SWITCHML_LEVELS = 3 }; /* of switches, at most, from the workers to the job's root */

typedef struct {
    int64_t round;    /* the next of the slot, or the one that is outstanding */
    int64_t next;     /* number of the chunk that it is about */
    bool ahead;       /* it goes ahead of the chunk's own, with an exponent and maybe the tensor's announcement */
    bool announced;   /* the chunk has had a round ahead */
    bool disputed;    /* its tensor's tags differ: the next round ahead has the announcement itself */
    uint8_t agreed;   /* the chunk's exponent */
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
} SwitchML;

SwitchML *switchml_new(int32_t slots, int32_t k, int32_t recovery, const Datagrams *packets, int32_t packet_bytes);
void switchml_join(SwitchML *, int32_t job, int32_t rank, uint32_t epoch, int32_t worker, int32_t workers, bool racks);
void switchml_free(SwitchML *);
void switchml_start(SwitchML *, const Transfer *, double now);
bool switchml_received(SwitchML *, const Datagrams *, double now);
void switchml_ask_whom(SwitchML *, int64_t row);
