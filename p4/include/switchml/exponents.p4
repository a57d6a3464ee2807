// Block floating point: the largest exponent over the workers, for the chunk that the slot carries next.
#ifndef EXPONENTS_P4
#define EXPONENTS_P4
#include "headers.p4"
#include "metadata.p4"

control Exponents(inout headers_t hdr, in metadata_t meta) {
    register<exponent_t>(POOL_CELLS) exponent;

    apply {
        exponent_t held;
        exponent.read(held, meta.cell);
        if (meta.operation == operation_t.READ || (meta.operation == operation_t.COMBINE && held > hdr.switchml.exponent)) {
            hdr.switchml.exponent = held;
        }
        if (meta.operation != operation_t.NONE) {
            exponent.write(meta.cell, hdr.switchml.exponent);
        }
    }
}

#endif
