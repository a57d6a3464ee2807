// What is on the wire. hosts/atp/wire.py describes the same bytes to the hosts; a test holds the two together.
#ifndef ATP_HEADERS_P4
#define ATP_HEADERS_P4
#include "configuration.p4"
#include "../lanes.p4"
#include "../network.p4"

// What an ATP packet is
enum bit<8> atp_kind_t {
    GRADIENT = 1,  // worker to server: integers, to be added on the way; a bare one announces a tensor
    RAW = 2,       // worker to server: values of the tensor's own type, to be added at the server
    RESULT = 3,    // server to workers: the sum, and the acknowledgement that frees the aggregators; bare if they were
    RELEASE = 4,   // server to a switch: the job is over; free this aggregator if the job holds it
    RELEASED = 5,  // switch to server: done
    QUERY = 6,     // worker to server: what has become of this chunk?
    STATUS = 7     // switch or server to worker: who is in, where it is incomplete
}

header atp_t {
    // Whom a gradient has, for whom a query asks, whom the sender of a status has. A result: the sequence numbers of the two
    // results that its server sent to everybody before it, the last one first, but for those with `resend`; all ones: none
    bitmap_t bitmap0;     // workers of one rack; 0: all of that rack (or of the server's own rack: bitmap1)
    bitmap_t bitmap1;     // racks, and workers of the server's own rack
    epoch_t epoch;        // of the group
    atp_kind_t kind;
    bit<1> asked;         // gradient: some of it was sent again for an answer; query: not the first
    bit<1> integer;       // raw values are int32, else float32
    bit<1> raw;           // result: the vector is the sum of raw values; query, status: about raw values
    bit<1> overflow;      // gradient: a sum saturated; result: there is none, send raw values
    // gradient: sent again, claims nothing; flushes its aggregator, or joins it if `asked`. Result: some of it was sent again.
    // Status: with `asked`, the marks that a lacking worker's gradient carries when it is sent again. Query: for all that the
    // worker knows the result is lost.
    bit<1> resend;
    bit<1> collision;     // gradient: another (job, sequence) held its aggregator; result: so it was for a part of it
    bit<1> ecn;           // a queue was deep on the way
    bit<1> edge_switch;   // which level comes next; 0: the workers' rack, 1: the server's rack
    bit<16> index;        // of the aggregator
    // result: of the aggregator for the chunk one window later; query: its answer has the same; gradient: its priority (ESA), or 0
    bit<16> next_index;
    job_t job;
    sequence_t sequence;  // number of the chunk, modulo 2^24
}

// behind the tag of a bare gradient, and of its result
header largest_t {
    exponent_t exponent;  // of the tensor
}

const bit<16> BYTES_ATP = 22;
const bit<16> BYTES_BARE = BYTES_ATP + BYTES_TAG + 1;

#endif
