// Sizes and types that all programs share. K and MAX_JOBS can be set with -D NAME=VALUE when compiling.
#ifndef SIZES_P4
#define SIZES_P4

// 32-bit integers in a packet: 32, 64 or 256
#ifndef K
#define K 64
#endif

#ifndef MAX_JOBS
#define MAX_JOBS 16
#endif

// workers of one job below one switch: the bits of a bitmap
#define MAX_WORKERS 32
// ports whose loss can be set
#define MAX_PORTS 64

typedef bit<9> port_t;      // of a switch
typedef bit<16> group_t;    // of a multicast
typedef bit<8> job_t;
typedef bit<8> exponent_t;  // of a block
typedef bit<8> worker_t;    // in its job, or a rack's switch below its parent
typedef bit<32> bitmap_t;   // bit w: worker w
typedef bit<32> epoch_t;    // of a group of a job's workers, see epoch.p4

#endif
