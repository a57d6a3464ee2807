// Sizes. Each can be set with -D NAME=VALUE when compiling.
#ifndef CONFIGURATION_P4
#define CONFIGURATION_P4

// 32-bit integers in a packet: 32, 64 or 256
#ifndef K
#define K 64
#endif

// slots of all jobs together, both versions counted
#ifndef POOL_CELLS
#define POOL_CELLS 4096
#endif

#ifndef MAX_JOBS
#define MAX_JOBS 16
#endif

// workers of one job below one switch: the bits of a bitmap
#define MAX_WORKERS 32
// ports whose loss can be set
#define MAX_PORTS 64

#define UDP_PORT_SWITCHML 48864

typedef bit<32> cell_t;     // where a (version, slot) of some job lies in the registers
typedef bit<32> chunk_t;    // serial number of a chunk in its job's stream; compared modulo 2^32
typedef bit<32> bitmap_t;   // bit w: worker w

#endif
