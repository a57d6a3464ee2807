// Block floating point: the largest exponent over the workers, of the block that is sent next.
#ifndef EXPONENTS_P4
#define EXPONENTS_P4
#include "operation.p4"
#include "sizes.p4"

control Exponents(inout exponent_t exponent, in operation_t operation, in bit<32> cell)(bit<32> cells) {
    register<exponent_t>(cells) largest;

    apply {
        exponent_t held;
        largest.read(held, cell);
        if (operation == operation_t.READ || (operation == operation_t.COMBINE && held > exponent)) {
            exponent = held;
        }
        if (operation != operation_t.NONE) {
            largest.write(cell, exponent);
        }
    }
}

#endif
