// Block floating point over RoCE: a message's last packet has the exponents, four, of the message that its queue pair carries next.
#ifndef ROCE_EXPONENTS_P4
#define ROCE_EXPONENTS_P4
#include "headers.p4"
#include "../operation.p4"

#define EACH(M) M(exponent0, 27:21) M(exponent1, 20:14) M(exponent2, 13:7) M(exponent3, 6:0)

control RoceExponents(inout headers_t hdr, in operation_t operation, in cell_t cell) {
    register<bit<32>>(POOL_CELLS) largest;

#define LARGER(e, bits) if (operation == operation_t.READ || held[bits] > hdr.immediate.e) { hdr.immediate.e = held[bits]; }
    apply {
        bit<32> held;
        if (hdr.immediate.isValid() && operation != operation_t.NONE) {
            largest.read(held, cell);
            if (operation != operation_t.STORE) {
                EACH(LARGER)
            }
            largest.write(cell, 4w0 ++ hdr.immediate.exponent0 ++ hdr.immediate.exponent1 ++ hdr.immediate.exponent2
                                ++ hdr.immediate.exponent3);
        }
    }
#undef LARGER
}

#endif
