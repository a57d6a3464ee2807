// Sizes of this program. Each can be set with -D NAME=VALUE when compiling.
#ifndef ATP_CONFIGURATION_P4
#define ATP_CONFIGURATION_P4
#include "../sizes.p4"

// aggregators, shared by all jobs; at most 65536
#ifndef AGGREGATORS
#define AGGREGATORS 4096
#endif

#define UDP_PORT_ATP 48866

typedef bit<24> sequence_t;      // of a chunk in its job, modulo 2^24
typedef bit<64> owner_t;         // of an aggregator: epoch (32 bits), job (8) and sequence (24)
typedef bit<48> microseconds_t;
typedef bit<16> priority_t;      // of a gradient (ESA), the higher the more urgent

// time in which no job sends so many chunks that a sequence number of 24 bits comes round
const microseconds_t AGE_SEQUENCE = 1 << 24;

#endif
