// Sizes of this program. Each can be set with -D NAME=VALUE when compiling.
#ifndef CONFIGURATION_P4
#define CONFIGURATION_P4
#include "../sizes.p4"

// aggregators, shared by all jobs; at most 65536
#ifndef AGGREGATORS
#define AGGREGATORS 4096
#endif
#define CELLS AGGREGATORS

#define UDP_PORT_ATP 48866

typedef bit<24> sequence_t;      // of a chunk in its job, modulo 2^24
typedef bit<64> owner_t;         // of an aggregator: epoch (32 bits), job (8) and sequence (24)
typedef bit<48> microseconds_t;

// time in which no job sends so many chunks that a sequence number of 24 bits comes round
const microseconds_t AGE_SEQUENCE = 1 << 24;

#endif
