// The first states of a parser, for the inside of its braces: Ethernet, ARP, IPv4, UDP. PROTOCOLS has the states that follow, of
// whole datagrams: a PROTOCOL_STATE(port, state) for each protocol. A first fragment, and a datagram behind IPv4 options, is
// understood as far as UDP, so that admission sees that it is for the protocol's port, and turns it away. Whatever else comes is
// accepted as far as it goes.
#define PROTOCOL_STATE(port, state) (port, 5, 0 &&& 1): state;
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_ARP: parse_arp;
            default: accept;
        }
    }

    state parse_arp {
        packet.extract(hdr.arp);
        transition accept;
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.fragment, hdr.ipv4.protocol) {
            (4, 5, 0, PROTOCOL_UDP): parse_udp;
            (4, 6 &&& 14, 0, PROTOCOL_UDP): parse_options;  // 6 and 7 words
            (4, 8 &&& 8, 0, PROTOCOL_UDP): parse_options;   // 8 to 15
            default: accept;
        }
    }

    state parse_options {
        packet.extract(hdr.options, 32 * ((bit<32>)hdr.ipv4.ihl - 5));
        transition parse_udp;
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst, hdr.ipv4.ihl, hdr.ipv4.flags) {
            PROTOCOLS
            default: accept;
        }
    }
