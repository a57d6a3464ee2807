// Which of several equally short paths a packet takes: that of its flow, by a hash modulo their number (equal-cost multipath), or the
// paths in turn, packet by packet. A flow is what has the same MAC addresses and UDP ports: TCP's ports are not parsed.
// A program includes this behind its headers_t, which has an `ethernet` and a `udp`.
#ifndef PATHS_P4
#define PATHS_P4

control Paths(in headers_t hdr, in bit<16> ways, out bit<16> way) {
    register<bit<1>>(1) by_packet;
    register<bit<32>>(1) turn;

    apply {
        way = 0;
        if (ways > 1) {
            bit<1> in_turn;
            by_packet.read(in_turn, 0);
            if (in_turn == 1) {
                bit<32> number;
                turn.read(number, 0);
                turn.write(0, number + 1);
                hash(way, HashAlgorithm.identity, 16w0, { number }, ways);
            } else {
                bit<32> ports = 0;
                if (hdr.udp.isValid()) {
                    ports = hdr.udp.src ++ hdr.udp.dst;
                }
                hash(way, HashAlgorithm.crc32, 16w0, { hdr.ethernet.src, hdr.ethernet.dst, ports }, ways);
            }
        }
    }
}

#endif
