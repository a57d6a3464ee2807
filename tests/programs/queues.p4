// Egress queues: what the depths and times in standard metadata say; and random numbers.
#define PROBE_FIELDS bit<8> op; bit<32> enq_depth; bit<32> deq_depth; bit<32> waited; bit<16> drawn;
#include "frame.p4"
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    direct_counter(CounterType.packets_and_bytes) hits;
    action to(bit<9> port) { standard.egress_spec = port; }
    table by_op { key = { hdr.probe.op : exact; } actions = { to; } counters = hits; default_action = to(1); size = 4; }
    apply {
        by_op.apply();
        random(hdr.probe.drawn, 10, 19);
    }
}
control After(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.probe.enq_depth = (bit<32>)standard.enq_qdepth;
        hdr.probe.deq_depth = (bit<32>)standard.deq_qdepth;
        hdr.probe.waited = standard.deq_timedelta;
    }
}
PACKAGE
