// Chunks that one worker owns. Of a reduce-scatter's all workers give vectors, and the sum goes to the owner alone. Of an
// all-gather's the owner gives a vector, which goes to all others. Whoever has nothing to give, or gets nothing, has a bare
// packet in the same round: windows, bitmaps, queries and retransmissions are those of every other chunk.
#ifndef PART_P4
#define PART_P4
#include "headers.p4"
#include "metadata.p4"
#include "next_step.p4"

// Which of this switch's children is the owner, or has it below.
control Ownership(in headers_t hdr, inout metadata_t meta) {
    action below(worker_t child) {
        meta.owned_below = 1;
        meta.owner_child = child;
    }

    table owners {
        key = {
            hdr.switchml.job : exact;
            meta.owner : exact;
        }
        actions = { below; NoAction; }
        size = MAX_OWNERS;
        default_action = NoAction();
    }

    apply {
        if (meta.flow != flow_t.ALL) {
            owners.apply();
        }
    }
}

// Whether an update or a result has a vector on the link to a child. The link to the parent is as that to the owner's
// child: the owner is at its lower end, or below, if it is below this switch.
control Whole(in metadata_t meta, in kind_t kind, in worker_t child, out bit<1> whole) {
    apply {
        whole = 0;
        if (child == meta.owner_child) {
            whole = meta.owned_below;
        }
        if (kind == kind_t.UPDATE) {
            if (meta.flow == flow_t.TO_OWNER) {
                whole = 1;
            }
        } else if (meta.flow == flow_t.FROM_OWNER) {
            whole = whole ^ 1;
        }
    }
}

// What a packet of such a chunk does with the vector that the cell holds, and whether it leaves with one.
control Vectors(inout headers_t hdr, inout metadata_t meta, in step_t next) {
    Whole() whole;

    apply {
        meta.on_vector = meta.operation;
        if (meta.flow != flow_t.ALL) {
            if (meta.flow == flow_t.FROM_OWNER && meta.operation == operation_t.COMBINE) {
                meta.on_vector = operation_t.STORE;  // nobody else's is added
            }
            if (next != step_t.DROP && !hdr.status.isValid()) {
                if (next == step_t.UP) {
                    whole.apply(meta, kind_t.UPDATE, meta.owner_child, meta.whole);
                } else if (next == step_t.BROADCAST) {
                    meta.whole = meta.owned_below;  // for some child; the copies of others lose it at egress
                    if (meta.flow == flow_t.FROM_OWNER) {
                        meta.whole = 1;
                    }
                } else {
                    whole.apply(meta, kind_t.RESULT, hdr.switchml.worker, meta.whole);
                }
                hdr.part.setValid();
                hdr.part.flow = meta.flow;
                hdr.part.reserved = 0;
                hdr.part.owner = meta.owner;
                if (meta.whole == 1 && !hdr.vector.isValid()) {
                    hdr.vector.setValid();
                    meta.on_vector = operation_t.READ;
                }
            }
        }
    }
}

// Leave a packet that has a part with a vector, or with a tag in its place.
control Shape(inout headers_t hdr, in bit<1> whole) {
    apply {
        if (whole == 1) {
            hdr.tag.setInvalid();
            hdr.ipv4.length = BYTES_IPV4 + BYTES_UDP + BYTES_SWITCHML + BYTES_VECTOR + BYTES_PART;
            hdr.udp.length = BYTES_UDP + BYTES_SWITCHML + BYTES_VECTOR + BYTES_PART;
        } else {
            hdr.vector.setInvalid();
            hdr.tag.setValid();
            hdr.tag.value = 0;
            hdr.ipv4.length = BYTES_IPV4 + BYTES_UDP + BYTES_SWITCHML + BYTES_TAG + BYTES_PART;
            hdr.udp.length = BYTES_UDP + BYTES_SWITCHML + BYTES_TAG + BYTES_PART;
        }
    }
}

#endif
