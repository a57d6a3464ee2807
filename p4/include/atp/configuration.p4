// Sizes of this program. Each can be set with -D NAME=VALUE when compiling.
#ifndef CONFIGURATION_P4
#define CONFIGURATION_P4
#include "../sizes.p4"

// aggregators, shared by all jobs; at most 65536
#ifndef AGGREGATORS
#define AGGREGATORS 4096
#endif

#define UDP_PORT_ATP 48866

// microseconds in which no job sends so many chunks that a sequence number of 24 bits comes round
const bit<48> AGE_SEQUENCE = 1 << 24;

#endif
