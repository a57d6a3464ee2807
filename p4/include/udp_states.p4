// The first states of a parser, for the inside of its braces: Ethernet, IPv4, UDP, and `parse_protocol` for datagrams to
// UDP_PORT_PROTOCOL. Whatever else comes is accepted as far as it was understood.
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        // no options, no fragment
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.flags, hdr.ipv4.fragment, hdr.ipv4.protocol) {
            (4, 5, 0 &&& 1, 0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst) {
            UDP_PORT_PROTOCOL: parse_protocol;
            default: accept;
        }
    }
