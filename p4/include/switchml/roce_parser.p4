// Ethernet / IPv4 / UDP / RoCEv2: packets of messages with vectors, and messages of one packet with a SwitchML header.
// Whatever else comes is forwarded as far as it was understood.
#ifndef ROCE_PARSER_P4
#define ROCE_PARSER_P4
#include "packet.p4"
#include "metadata.p4"

#define BYTES_AROUND (BYTES_UDP + BYTES_BTH + BYTES_ICRC)
#define BYTES_ONLY (BYTES_AROUND + BYTES_RETH + BYTES_IMMEDIATE)

parser RoceParser(packet_in packet, out headers_t hdr, inout switchml_metadata_t meta, inout standard_metadata_t standard) {
#define PROTOCOLS PROTOCOL_STATE(UDP_PORT_ROCE, parse_roce)
#include "../udp_states.p4"

    state parse_roce {
        packet.extract(hdr.bth);
        transition select(hdr.bth.opcode, hdr.udp.length) {
            (opcode_t.UC_WRITE_FIRST, BYTES_AROUND + BYTES_RETH + BYTES_VECTOR): parse_first;
            (opcode_t.UC_WRITE_MIDDLE, BYTES_AROUND + BYTES_VECTOR): parse_vector;
            (opcode_t.UC_WRITE_LAST_IMMEDIATE, BYTES_AROUND + BYTES_IMMEDIATE + BYTES_VECTOR): parse_last;
            (opcode_t.UC_WRITE_ONLY_IMMEDIATE, BYTES_ONLY + BYTES_VECTOR): parse_only;
            (opcode_t.UC_WRITE_ONLY_IMMEDIATE, BYTES_ONLY + BYTES_SWITCHML + BYTES_TAG): parse_short;
            (opcode_t.UC_WRITE_ONLY_IMMEDIATE, BYTES_ONLY + BYTES_SWITCHML + BYTES_CONNECT): parse_short;
            default: accept;
        }
    }

    state parse_first {
        packet.extract(hdr.reth);
        transition parse_vector;
    }

    state parse_last {
        packet.extract(hdr.immediate);
        transition parse_vector;
    }

    state parse_only {
        packet.extract(hdr.reth);
        transition parse_last;
    }

    state parse_vector {
        packet.extract(hdr.vector);
        transition parse_icrc;
    }

    state parse_short {
        packet.extract(hdr.reth);
        packet.extract(hdr.immediate);
        packet.extract(hdr.switchml);
        transition select(hdr.switchml.kind, hdr.udp.length) {
            (switchml_kind_t.UPDATE, BYTES_ONLY + BYTES_SWITCHML + BYTES_TAG): parse_tag;
            (switchml_kind_t.RESULT, BYTES_ONLY + BYTES_SWITCHML + BYTES_TAG): parse_tag;
            (switchml_kind_t.QUERY, BYTES_ONLY + BYTES_SWITCHML + BYTES_STATUS): parse_status;
            (switchml_kind_t.STATUS, BYTES_ONLY + BYTES_SWITCHML + BYTES_STATUS): parse_status;
            (switchml_kind_t.CONNECT, BYTES_ONLY + BYTES_SWITCHML + BYTES_CONNECT): parse_connect;
            default: accept;
        }
    }

    state parse_tag {
        packet.extract(hdr.tag);
        transition parse_icrc;
    }

    state parse_status {
        packet.extract(hdr.status);
        transition parse_icrc;
    }

    state parse_connect {
        packet.extract(hdr.connect);
        transition parse_icrc;
    }

    state parse_icrc {
        packet.extract(hdr.icrc);
        transition accept;
    }
}

control RoceDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.options);
        packet.emit(hdr.udp);
        packet.emit(hdr.bth);
        packet.emit(hdr.reth);
        packet.emit(hdr.immediate);
        packet.emit(hdr.switchml);
        packet.emit(hdr.status);
        packet.emit(hdr.tag);
        packet.emit(hdr.vector);
        packet.emit(hdr.connect);
        packet.emit(hdr.icrc);
    }
}

// Only what is answered is checked and rewritten: forwarded packets keep the bytes they came with.
control RoceVerify(inout headers_t hdr, inout switchml_metadata_t meta) {
    apply {
        verify_checksum(hdr.bth.isValid(), IPV4_CHECKED, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control RoceCompute(inout headers_t hdr, inout switchml_metadata_t meta) {
    apply {
        update_checksum(meta.admitted == 1, IPV4_CHECKED, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

#endif
