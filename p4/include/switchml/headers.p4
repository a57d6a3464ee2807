// What is on the wire. hosts/switchml/wire.py and hosts/roce/wire.py describe the same bytes to the workers; tests hold them together.
#ifndef SWITCHML_HEADERS_P4
#define SWITCHML_HEADERS_P4
#include "configuration.p4"
#include "../lanes.p4"
#include "../network.p4"
#include "../roce.p4"

// What a SwitchML packet is
enum bit<8> switchml_kind_t {
    UPDATE = 1,  // worker to switch: add this vector; a bare one has a tag in its place
    RESULT = 2,  // switch to worker: the sum over all workers, of vectors or of tags
    QUERY = 3,   // worker to switch: whom has this slot not seen?
    STATUS = 4,  // switch to worker: the bitmap of whom it has
    CONNECT = 5  // over RoCE, worker to switch: where the results of this queue pair go
}

header switchml_t {
    job_t job;
    worker_t worker;
    switchml_kind_t kind;
    bit<8> version;     // which of a slot's two sets
    slot_t slot;
    exponent_t exponent;  // block exponent of the chunk that this slot carries next;
                        // query: how often the update has been sent again, which the status repeats
    bit<8> mark;        // update: 1 if it is sent again;
                        // query: 1 if the worker has asked, or had an answer, before; 2 if it has to go up;
                        // result: that of the update that completed it, or 1 if it answers a query;
                        // status: level of the switch that answers, 0 next to the workers
    epoch_t epoch;      // of the group; status: the newest that the switch knows
    chunk_t chunk;
}

// Whose a chunk is, where not all workers give and get its vector
enum bit<8> flow_t {
    ALL = 0,         // all workers give, and all get the sum
    TO_OWNER = 1,    // all give, and one gets the sum; the results of the others are bare
    FROM_OWNER = 2   // one gives, and all others get what it gives; the updates of the others, and its result, are bare
}

// behind the vector or the tag of such a chunk
header part_t {
    flow_t flow;
    bit<8> reserved;
    rank_t owner;
}

// behind the header of a query, and of the status that answers it
header status_t {
    bitmap_t seen;      // workers (above level 0: racks) that are in
}

// Over RoCE, of a message's last packet: data that a receiver gets with the completion
header immediate_t {
    bit<1> again;        // the message is sent again; result: the one that completed it was
    bit<3> turn;         // the round's number, modulo 8
    bit<7> exponent0;    // of the chunks that this queue pair carries next, each of a quarter of a message,
    bit<7> exponent1;    // or of one packet where a message has fewer than four
    bit<7> exponent2;
    bit<7> exponent3;
}

// behind the header of such a packet: the worker's own end
header connect_t {
    bit<8> reserved;
    queue_pair_t queue_pair;
    bit<8> reserved_too;
    psn_t psn;           // that it waits for
    key_t key;           // of the region of memory
    address_t address;   // in it
}

const bit<16> BYTES_SWITCHML = 16;
const bit<16> BYTES_CONNECT = 20;
const bit<16> BYTES_STATUS = 4;
const bit<16> BYTES_PART = 4;

#endif
