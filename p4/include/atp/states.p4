// The states of a parser behind a datagram to UDP_PORT_ATP, for the inside of its braces; they begin with `parse_atp`.
    state parse_atp {
        packet.extract(hdr.atp);
        transition select(hdr.atp.kind, hdr.udp.length) {
            (atp_kind_t.GRADIENT, BYTES_UDP + BYTES_BARE): parse_atp_bare;
            (atp_kind_t.RESULT, BYTES_UDP + BYTES_BARE): parse_atp_bare;
            (atp_kind_t.GRADIENT, _): parse_atp_vector;
            (atp_kind_t.RAW, _): parse_atp_vector;
            (atp_kind_t.RESULT, _): parse_atp_vector;
            default: accept;
        }
    }

    state parse_atp_bare {
        packet.extract(hdr.tag);
        packet.extract(hdr.largest);
        transition accept;
    }

    state parse_atp_vector {
        packet.extract(hdr.vector);
        transition accept;
    }
