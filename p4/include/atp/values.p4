// The aggregators' values: K integers each, a register array for each lane (BMv2 runs that 1.6 to 2.7 times faster than one
// array indexed by aggregator and lane). Sums saturate; that one has is remembered, since the next value could hide it.
#ifndef VALUES_P4
#define VALUES_P4
#include "headers.p4"
#include "metadata.p4"

control Values(inout headers_t hdr, inout atp_metadata_t meta) {
    register<bit<1>>(AGGREGATORS) overflow;
#define LANE(j) register<bit<32>>(AGGREGATORS) lane##j;
    LANES(LANE)
#undef LANE

#define LANE(j) lane##j.write(cell, hdr.vector.v##j);
    action store(in bit<32> cell) {
        LANES(LANE)
    }
#undef LANE

    // a sum has saturated where its sign is that of neither operand; wrapped and saturated sums differ in sign then
#define LANE(j) lane##j.read(held, cell); \
                wrapped = hdr.vector.v##j + held; \
                signs = signs | ((wrapped ^ held) & (wrapped ^ hdr.vector.v##j)); \
                hdr.vector.v##j = (bit<32>)((int<32>)hdr.vector.v##j |+| (int<32>)held); \
                lane##j.write(cell, hdr.vector.v##j);
    action add(in bit<32> cell, out bit<1> saturated) {
        bit<32> held;
        bit<32> wrapped;
        bit<32> signs = 0;
        LANES(LANE)
        saturated = signs[31:31];
    }
#undef LANE

#define LANE(j) lane##j.read(hdr.vector.v##j, cell);
    action load(in bit<32> cell) {
        LANES(LANE)
    }
#undef LANE

#ifdef ESA
#define LANE(j) lane##j.read(held, cell); \
                lane##j.write(cell, hdr.vector.v##j); \
                hdr.vector.v##j = held;
    action exchange(in bit<32> cell) {
        bit<32> held;
        LANES(LANE)
    }
#undef LANE
#endif

    apply {
        bit<32> cell = (bit<32>)hdr.atp.index;
        bit<1> before;
        bit<1> saturated = 0;
        overflow.read(before, cell);
        if (!hdr.vector.isValid()) {
            before = 0;
        } else if (meta.operation == operation_t.STORE) {
            store(cell);
        } else if (meta.operation == operation_t.COMBINE) {
            add(cell, saturated);
            hdr.atp.overflow = hdr.atp.overflow | before | saturated;
        } else if (meta.operation == operation_t.READ) {
            load(cell);
            hdr.atp.overflow = before;
        }
        bit<1> kept = hdr.atp.overflow;
#ifdef ESA
        if (hdr.vector.isValid() && meta.operation == operation_t.EXCHANGE) {
            exchange(cell);
            hdr.atp.overflow = before;
        }
#endif
        if (hdr.vector.isValid() && meta.operation != operation_t.NONE) {
            overflow.write(cell, kept);
        }
    }
}

#endif
