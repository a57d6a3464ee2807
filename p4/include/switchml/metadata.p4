// What the stages of the pipeline tell each other about a packet.
#ifndef SWITCHML_METADATA_P4
#define SWITCHML_METADATA_P4
#include "configuration.p4"
#include "headers.p4"
#include "../operation.p4"

// Why a packet was turned away; index of the counter `rejected`
enum bit<32> switchml_reject_t {
    JOB = 0,        // no such job
    SOURCE = 1,     // not that worker, or not the parent, at that port and address
    SLOT = 2,       // beyond the job's pool
    MALFORMED = 3   // too short, too long, a fragment, wrong checksum, unknown kind or no epoch
}
#define SWITCHML_REASONS 4

struct switchml_metadata_t {
    bit<1> well_formed;     // the packet is, as far as its transport tells

    // from the job's configuration
    cell_t base;            // of the job's pool
    slot_t slots;
    bit<1> admitted;
    bit<1> passes_by;       // it is forwarded as what is no packet of SwitchML's
    worker_t link;          // that the packet came by: a worker's number, or a rack's, or PARENT

    // from the tree in which a chunk is summed: its job's, or its owner's (part.p4)
    bitmap_t everyone;      // bitmap of all workers below this switch
    group_t group;          // multicast group of the workers
    bit<1> has_parent;      // this switch sends its sums up,
    worker_t toward;        // by this link

    // of the job
    epoch_t epoch;          // the newest
    bit<1> outdated;        // the packet is of another

    // of the slot
    cell_t cell;
    bit<1> stale;
    bit<1> fresh;           // of a round that the cell has not begun: what it holds is of an earlier one
    bit<1> bare;            // the cell's round has tags in place of vectors
    flow_t flow;            // and its chunk is for all, or one worker's
    rank_t owner;
    worker_t owner_link;    // the owner's number, at its own switch
    bit<1> repeated;        // this worker is already in; for the parent's status: this switch is in there
    bit<1> first;           // nobody was in
    bit<1> complete;        // everybody is in, this packet included
    bit<1> has_final;       // the sum over all racks is in the pool (switches with a parent)
    bit<1> asked;           // it is another worker whose queries go up
    bitmap_t seen;
    operation_t operation;  // with the values that the cell holds
    operation_t on_vector;  // with the vector that it holds
    bit<1> whole;           // the packet leaves with a vector (chunks that have an owner)

    // of the queue pair (RoCE)
    slot_t base_slot;       // its slots are this one and those behind it, as many as a message has packets
    slot_t message;         // packets of a message
    bit<1> in_sequence;     // the packet is the one that is expected
    worker_t next_link;     // that the packet leaves by, if it is one alone
    bit<1> end_is_switch;   // at the other end of that
    bit<1> end_is_new;      // the worker's was not known before
}

#endif
