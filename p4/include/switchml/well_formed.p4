// Whether a datagram is a whole packet of the protocol, of one of its lengths.
#ifndef WELL_FORMED_P4
#define WELL_FORMED_P4
#include "headers.p4"
#include "metadata.p4"

control WellFormed(in headers_t hdr, inout switchml_metadata_t meta, in standard_metadata_t standard) {
    apply {
        bool well_formed = IS_WHOLE;
        if (hdr.part.isValid()) {  // whose length has told it from others
            well_formed = well_formed && (hdr.part.flow == flow_t.TO_OWNER || hdr.part.flow == flow_t.FROM_OWNER);
        } else if (hdr.vector.isValid()) {
            well_formed = well_formed && hdr.udp.length == BYTES_UDP + BYTES_SWITCHML + BYTES_VECTOR;
        } else if (hdr.status.isValid()) {
            well_formed = well_formed && hdr.udp.length == BYTES_UDP + BYTES_SWITCHML + BYTES_STATUS;
        } else {
            well_formed = well_formed && hdr.tag.isValid();
        }
        if (well_formed && hdr.switchml.version < 2 && hdr.switchml.epoch != 0) {
            meta.well_formed = 1;
        }
    }
}

#endif
