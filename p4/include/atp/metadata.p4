// What the stages of the pipeline tell each other about a packet.
#ifndef ATP_METADATA_P4
#define ATP_METADATA_P4
#include "configuration.p4"
#include "../operation.p4"

// What this switch is to a packet
enum bit<3> role_t {
    STRANGER = 0,
    TRANSIT = 1,     // on the way to somebody else
    AGGREGATE = 2,   // of a level that adds
    ADDRESSEE = 3,   // of a server's answer, to be passed down
    PASSER_BY = 4,   // of a job that other switches aggregate
    RELAY = 5        // likewise, of a server's answer, to be passed down
}

// What becomes of its owner, bitmap and count
enum bit<2> change_t {
    KEEP = 0,
    CLAIM = 1,
    ADD = 2,
    FREE = 3
}

// Why a packet was turned away; index of the counter `rejected`
enum bit<32> atp_reject_t {
    SOURCE = 0,     // not of this job, or not at that port and address, or not with that bit
    INDEX = 1,      // beyond the table
    MALFORMED = 2   // too short, too long, a fragment, wrong checksum, unknown kind or no epoch
}
#define ATP_REASONS 3

struct atp_metadata_t {
    // from admission
    role_t role;
    group_t group;       // multicast group of the job's workers, seen from here
    bit<16> ways;        // and how many there are from this one on, of which any does
    bit<8> fan_in;       // children of this level that a whole sum has
    bitmap_t rack;       // of what comes from a server: this rack's bit there, 0 in the server's own rack

    bit<1> outdated;     // not of the job's newest group

    // of the aggregator
    owner_t owner;       // (epoch, job, sequence) of the packet
    bit<1> held;         // somebody's, and not for longer than its lifetime
    bit<1> own;          // the packet's (for a release: its job's)
    bit<1> bare;         // it holds tags in place of vectors
    bit<1> mergeable;    // the packet is of a whole child of this level, a worker or a complete rack, and of the aggregator's shape
    bit<1> repeated;     // that child is already in; of a status: some of this level's children are in where it comes from
    bit<1> complete;     // all children are in, a gradient's included
    bit<1> refused;      // another packet of the same chunk has found the aggregator taken, or its result has passed
    bit<1> closed;       // the packet's group is over
    bit<1> asked;        // a query about it has gone on, and waits for its answer
    bitmap_t bitmap;     // children in; from children.p4 on with a gradient's own
    bit<8> count;        // of them
    bit<1> ecn;          // of the packets in
    bit<1> again;        // some of them were sent again for an answer
    operation_t operation;
    change_t change;
}

#endif
