// Sizes of this program. Each can be set with -D NAME=VALUE when compiling.
#ifndef SWITCHML_CONFIGURATION_P4
#define SWITCHML_CONFIGURATION_P4
#include "../sizes.p4"

// slots of all jobs together, both versions counted
#ifndef POOL_CELLS
#define POOL_CELLS 4096
#endif

// workers of all jobs together that can own chunks
#ifndef MAX_OWNERS
#define MAX_OWNERS 1024
#endif

#define UDP_PORT_SWITCHML 48864

// number of a switch's parent where, in an owner's tree, it sends its sums down to this one
#define PARENT (MAX_WORKERS - 1)

typedef bit<16> slot_t;
typedef bit<32> cell_t;     // where a (version, slot) of some job lies in the registers
typedef bit<32> chunk_t;    // serial number of a chunk in its job's stream; compared modulo 2^32
typedef bit<16> rank_t;     // of a worker in its job
typedef bit<64> round_t;    // of a cell: epoch and chunk

#endif
