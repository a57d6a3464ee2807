// What a host may send: frames from its own addresses, without a VLAN tag, whose headers can be read. Whoever could send
// from the address of a switch or of another host could forge results. A port that the control plane has not given to a
// host leads to another switch, which has checked its own hosts.
// A program includes this behind its headers_t, which has an `ethernet`, an `arp` and an `ipv4`.
#ifndef SOURCE_GUARD_P4
#define SOURCE_GUARD_P4

control SourceGuard(in headers_t hdr, inout standard_metadata_t standard, out bit<1> passes) {
    counter(1, CounterType.packets) forged;
    bit<1> from_host;
    mac_t mac;
    ip4_t ip;

    action host(mac_t host_mac, ip4_t host_ip) {
        from_host = 1;
        mac = host_mac;
        ip = host_ip;
    }

    table hosts {
        key = { standard.ingress_port : exact; }
        actions = { host; NoAction; }
        size = MAX_PORTS;
        default_action = NoAction();
    }

    apply {
        bit<1> refused = 0;
        from_host = 0;
        passes = 1;
        mac = 0;
        ip = 0;
        hosts.apply();
        if (from_host == 1) {
            if (hdr.ethernet.src != mac || standard.parser_error != error.NoError) {
                refused = 1;
            } else if (hdr.ethernet.ethertype == ETHERTYPE_VLAN || hdr.ethernet.ethertype == ETHERTYPE_SERVICE_VLAN
                       || hdr.ethernet.ethertype == ETHERTYPE_OLD_SERVICE_VLAN) {
                refused = 1;  // Linux unwraps the priority tag of any host
            } else if (hdr.ipv4.isValid() && hdr.ipv4.src != ip) {
                refused = 1;
            } else if (hdr.arp.isValid()
                       && (hdr.arp.sender_mac != mac || (hdr.arp.sender_ip != ip && hdr.arp.sender_ip != 0))) {
                refused = 1;
            }
            if (refused == 1) {
                passes = 0;
                forged.count(0);
                mark_to_drop(standard);
            }
        }
    }
}

#endif
