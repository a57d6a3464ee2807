// What a P4Runtime client writes and reads: all match kinds, profiles, counters, meters, registers, digests, value sets, packet I/O.
#include <core.p4>
#include <v1model.p4>

enum bit<8> reason_t { MISS = 1, ASKED = 7 }
@controller_header("packet_in") header packet_in_t { bit<16> port; reason_t reason; }
@controller_header("packet_out") header packet_out_t { bit<9> port; bit<7> padding; }
header probe_t { bit<8> op; bit<8> a; bit<16> b; bit<32> c; }
struct headers_t { packet_in_t to_controller; packet_out_t from_controller; probe_t probe; }
struct metadata_t { bit<2> colour; }
struct learn_t { bit<32> c; bit<9> port; bool even; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    value_set<bit<8>>(4) strange;
    state start { transition select(standard.ingress_port) { 510: controller; default: probe; } }
    state controller { packet.extract(hdr.from_controller); transition probe; }
    state probe { packet.extract(hdr.probe); transition select(hdr.probe.op) { strange: odd; default: accept; } }
    state odd { hdr.probe.b = 0xFFFF; transition accept; }
}

control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    counter(4, CounterType.packets_and_bytes) seen;
    register<bit<16>>(4) kept;
    meter(2, MeterType.packets) pace;
    direct_counter(CounterType.packets) hits;
    direct_meter<bit<2>>(MeterType.packets) limit;
    action_selector(HashAlgorithm.identity, 32, 8) choice;
    action forward(bit<9> port, bit<16> mark) { standard.egress_spec = port; hdr.probe.b = mark; hits.count(); }
    action drop() { mark_to_drop(standard); }
    action punt() { standard.egress_spec = 510; hdr.to_controller.setValid(); hdr.to_controller.port = (bit<16>)standard.ingress_port; hdr.to_controller.reason = reason_t.MISS; }
    action colour() { limit.read(meta.colour); standard.egress_spec = 1; }
    action spread(bit<9> port) { standard.egress_spec = port; }
    table exactly { key = { hdr.probe.a : exact; } actions = { forward; drop; punt; @defaultonly NoAction; } counters = hits; default_action = punt(); size = 4; support_timeout = true; }
    table longest { key = { hdr.probe.c : lpm; } actions = { forward; drop; } const default_action = drop(); }
    table masked { key = { hdr.probe.a : ternary; hdr.probe.b : range; hdr.probe.c : optional; } actions = { forward; drop; } default_action = forward(3, 9); }
    table paced { key = { hdr.probe.a : exact; } actions = { colour; drop; } meters = limit; default_action = drop(); }
    table spread_out { key = { hdr.probe.a : exact; hdr.probe.c : selector; } actions = { spread; drop; } implementation = choice; }
    table fixed { key = { hdr.probe.a : exact; } actions = { forward; drop; } const entries = { 1: drop(); } default_action = drop(); }
    apply {
        if (hdr.from_controller.isValid()) { standard.egress_spec = hdr.from_controller.port; hdr.from_controller.setInvalid(); return; }
        seen.count((bit<32>)hdr.probe.op);
        if (hdr.probe.op == 0) { exactly.apply(); }
        else if (hdr.probe.op == 1) { longest.apply(); }
        else if (hdr.probe.op == 2) { masked.apply(); }
        else if (hdr.probe.op == 3) { paced.apply(); hdr.probe.b = (bit<16>)meta.colour; }
        else if (hdr.probe.op == 4) { spread_out.apply(); }
        else if (hdr.probe.op == 5) { digest<learn_t>(1, { hdr.probe.c, standard.ingress_port, hdr.probe.a[0:0] == 0 }); standard.egress_spec = 1; }
        else if (hdr.probe.op == 6) { standard.mcast_grp = 5; }
        else if (hdr.probe.op == 7) { clone(CloneType.I2E, 9); standard.egress_spec = 2; }
        else if (hdr.probe.op == 8) { kept.read(hdr.probe.b, (bit<32>)hdr.probe.a); pace.execute_meter<bit<2>>(1, meta.colour); standard.egress_spec = 1; }
        else if (hdr.probe.op == 9) { fixed.apply(); }
        else { standard.egress_spec = 1; }
    }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control After(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), Work(), After(), Verify(), Deparse()) main;
