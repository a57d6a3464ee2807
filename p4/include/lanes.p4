// The integers of a packet. LANES(M) is M(00) M(01) … for each of the K integers of a packet, numbered in hexadecimal.
#ifndef LANES_P4
#define LANES_P4
#include "sizes.p4"

#define LANES_16(M, r) M(r##0) M(r##1) M(r##2) M(r##3) M(r##4) M(r##5) M(r##6) M(r##7) \
                       M(r##8) M(r##9) M(r##a) M(r##b) M(r##c) M(r##d) M(r##e) M(r##f)

#if K == 32
#define LANES(M) LANES_16(M, 0) LANES_16(M, 1)
#elif K == 64
#define LANES(M) LANES_16(M, 0) LANES_16(M, 1) LANES_16(M, 2) LANES_16(M, 3)
#elif K == 256
#define LANES(M) LANES_16(M, 0) LANES_16(M, 1) LANES_16(M, 2) LANES_16(M, 3) \
                 LANES_16(M, 4) LANES_16(M, 5) LANES_16(M, 6) LANES_16(M, 7) \
                 LANES_16(M, 8) LANES_16(M, 9) LANES_16(M, a) LANES_16(M, b) \
                 LANES_16(M, c) LANES_16(M, d) LANES_16(M, e) LANES_16(M, f)
#else
#error K must be 32, 64 or 256
#endif

#define LANE(j) bit<32> v##j;
header vector_t {
    LANES(LANE)
}
#undef LANE

const bit<16> BYTES_VECTOR = 4 * K;

// what a bare packet has in place of a vector
header tag_t {
    bit<32> value;
}

const bit<16> BYTES_TAG = 4;

#endif
