// Ethernet / IPv4 / UDP / SwitchML / vector. Whatever else comes is forwarded as far as it was understood.
#ifndef PARSER_P4
#define PARSER_P4
#include "headers.p4"
#include "metadata.p4"

parser SwitchMLParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
#define UDP_PORT_PROTOCOL UDP_PORT_SWITCHML
#include "../udp_states.p4"

    state parse_protocol {
        packet.extract(hdr.switchml);
        transition select(hdr.switchml.kind, hdr.udp.length) {
            (kind_t.UPDATE, BYTES_UDP + BYTES_SWITCHML + BYTES_TAG): parse_tag;
            (kind_t.RESULT, BYTES_UDP + BYTES_SWITCHML + BYTES_TAG): parse_tag;
            (kind_t.UPDATE, BYTES_UDP + BYTES_SWITCHML + BYTES_TAG + BYTES_PART): parse_tag_of_part;
            (kind_t.RESULT, BYTES_UDP + BYTES_SWITCHML + BYTES_TAG + BYTES_PART): parse_tag_of_part;
            (kind_t.UPDATE, BYTES_UDP + BYTES_SWITCHML + BYTES_VECTOR + BYTES_PART): parse_vector_of_part;
            (kind_t.RESULT, BYTES_UDP + BYTES_SWITCHML + BYTES_VECTOR + BYTES_PART): parse_vector_of_part;
            (kind_t.UPDATE, _): parse_vector;
            (kind_t.RESULT, _): parse_vector;
            (kind_t.QUERY, _): parse_status;
            (kind_t.STATUS, _): parse_status;
            default: accept;
        }
    }

    state parse_status {
        packet.extract(hdr.status);
        transition accept;
    }

    state parse_tag {
        packet.extract(hdr.tag);
        transition accept;
    }

    state parse_vector {
        packet.extract(hdr.vector);
        transition accept;
    }

    state parse_tag_of_part {
        packet.extract(hdr.tag);
        packet.extract(hdr.part);
        transition accept;
    }

    state parse_vector_of_part {
        packet.extract(hdr.vector);
        packet.extract(hdr.part);
        transition accept;
    }
}

control SwitchMLDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.options);
        packet.emit(hdr.udp);
        packet.emit(hdr.switchml);
        packet.emit(hdr.status);
        packet.emit(hdr.tag);
        packet.emit(hdr.vector);
        packet.emit(hdr.part);
    }
}

// Only what is answered is checked and rewritten: forwarded packets keep the bytes they came with.
control SwitchMLVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.switchml.isValid(), IPV4_CHECKED, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SwitchMLCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.switchml.isValid(), IPV4_CHECKED, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

#endif
