// Sizes of this program. Each can be set with -D NAME=VALUE when compiling.
#ifndef CONFIGURATION_P4
#define CONFIGURATION_P4
#include "../sizes.p4"

// aggregators, shared by all jobs; at most 65536
#ifndef AGGREGATORS
#define AGGREGATORS 4096
#endif

#define UDP_PORT_ATP 48866

#endif
