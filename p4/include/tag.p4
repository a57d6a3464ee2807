// The tag of a tensor, a number that depends on its length and type. Its announcement carries that in place of a vector, and
// the switch adds tags as it does vectors: n workers that sum the same tensor receive n times their own.
#ifndef TAG_P4
#define TAG_P4
#include "lanes.p4"
#include "operation.p4"

control Tag(inout tag_t tag, in operation_t operation, in bit<32> cell)(bit<32> cells) {
    register<bit<32>>(cells) sum;

    apply {
        if (tag.isValid()) {
            bit<32> held;
            sum.read(held, cell);
            if (operation == operation_t.COMBINE) {
                tag.value = tag.value + held;
            } else if (operation == operation_t.READ) {
                tag.value = held;
            }
            if (operation != operation_t.NONE) {
                sum.write(cell, tag.value);
            }
        }
    }
}

#endif
