// The states of a parser behind a datagram to UDP_PORT_SWITCHML, for the inside of its braces; they begin with `parse_switchml`.
    state parse_switchml {
        packet.extract(hdr.switchml);
        transition select(hdr.switchml.kind, hdr.udp.length) {
            (switchml_kind_t.UPDATE, BYTES_UDP + BYTES_SWITCHML + BYTES_TAG): parse_switchml_tag;
            (switchml_kind_t.RESULT, BYTES_UDP + BYTES_SWITCHML + BYTES_TAG): parse_switchml_tag;
            (switchml_kind_t.UPDATE, BYTES_UDP + BYTES_SWITCHML + BYTES_TAG + BYTES_PART): parse_switchml_tag_of_part;
            (switchml_kind_t.RESULT, BYTES_UDP + BYTES_SWITCHML + BYTES_TAG + BYTES_PART): parse_switchml_tag_of_part;
            (switchml_kind_t.UPDATE, BYTES_UDP + BYTES_SWITCHML + BYTES_VECTOR + BYTES_PART): parse_switchml_vector_of_part;
            (switchml_kind_t.RESULT, BYTES_UDP + BYTES_SWITCHML + BYTES_VECTOR + BYTES_PART): parse_switchml_vector_of_part;
            (switchml_kind_t.UPDATE, _): parse_switchml_vector;
            (switchml_kind_t.RESULT, _): parse_switchml_vector;
            (switchml_kind_t.QUERY, _): parse_switchml_status;
            (switchml_kind_t.STATUS, _): parse_switchml_status;
            default: accept;
        }
    }

    state parse_switchml_status {
        packet.extract(hdr.status);
        transition accept;
    }

    state parse_switchml_tag {
        packet.extract(hdr.tag);
        transition accept;
    }

    state parse_switchml_vector {
        packet.extract(hdr.vector);
        transition accept;
    }

    state parse_switchml_tag_of_part {
        packet.extract(hdr.tag);
        packet.extract(hdr.part);
        transition accept;
    }

    state parse_switchml_vector_of_part {
        packet.extract(hdr.vector);
        packet.extract(hdr.part);
        transition accept;
    }
