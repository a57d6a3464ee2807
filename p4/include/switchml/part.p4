// Chunks that one worker owns. Of a reduce-scatter's all workers give vectors, and the sum goes to the owner alone. Of an
// all-gather's the owner gives a vector, which goes to all others. Whoever has nothing to give, or gets nothing, has a bare
// packet in the same round: windows, bitmaps, queries and retransmissions are those of every other chunk.
//
// It is summed in a tree of its own, whose root is its owner's switch: between there and the job's root, parent and child have
// changed places. So the sum comes into being next to its owner, and the links between racks carry each vector once.
#ifndef PART_P4
#define PART_P4
#include "headers.p4"
#include "metadata.p4"
#include "next_step.p4"

// The tree of a chunk's owner, where that is below this switch. Of all others it is the job's.
control SwitchMLOwnership(in headers_t hdr, inout switchml_metadata_t meta) {
    // it is one of the workers here
    action own(bitmap_t everyone, group_t group, worker_t worker) {
        meta.everyone = everyone;
        meta.group = group;
        meta.has_parent = 0;
        meta.owner_link = worker;
    }

    // it is below another switch
    action below(bitmap_t everyone, group_t group, worker_t link) {
        meta.everyone = everyone;
        meta.group = group;
        meta.has_parent = 1;
        meta.toward = link;
    }

    table owners {
        key = {
            hdr.switchml.job : exact;
            meta.owner : exact;
        }
        actions = { own; below; NoAction; }
        size = MAX_OWNERS;
        default_action = NoAction();
    }

    apply {
        if (meta.flow != flow_t.ALL && !owners.apply().hit && meta.has_parent == 0) {
            meta.stale = 1;  // nobody's
        }
    }
}

// Whether an update or a result has a vector on a link. The owner's own is not like the others.
control Whole(in switchml_metadata_t meta, in switchml_kind_t kind, in worker_t link, out bit<1> whole) {
    apply {
        whole = 0;
        if (meta.has_parent == 0 && link == meta.owner_link) {
            whole = 1;
        }
        if (kind == switchml_kind_t.UPDATE) {
            if (meta.flow == flow_t.TO_OWNER) {
                whole = 1;
            }
        } else if (meta.flow == flow_t.FROM_OWNER) {
            whole = whole ^ 1;
        }
    }
}

// What a packet of such a chunk does with the vector that the cell holds, and whether it leaves with one.
control Vectors(inout headers_t hdr, inout switchml_metadata_t meta, in switchml_step_t next) {
    Whole() whole;

    apply {
        meta.on_vector = meta.operation;
        if (meta.flow != flow_t.ALL) {
            if (meta.flow == flow_t.FROM_OWNER && meta.operation == operation_t.COMBINE) {
                meta.on_vector = operation_t.STORE;  // nobody else's is added
            }
            if (next != switchml_step_t.DROP && !hdr.status.isValid()) {
                if (next == switchml_step_t.UP) {
                    whole.apply(meta, switchml_kind_t.UPDATE, meta.toward, meta.whole);
                } else if (next == switchml_step_t.BROADCAST) {
                    meta.whole = 1;  // for somebody; the copies of others lose it at egress
                    if (meta.flow == flow_t.TO_OWNER && meta.has_parent == 1) {
                        meta.whole = 0;
                    }
                } else {
                    whole.apply(meta, switchml_kind_t.RESULT, meta.link, meta.whole);
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
