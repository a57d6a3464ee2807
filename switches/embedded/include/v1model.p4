// The v1model architecture as simple_switch has it. What its externs do stands in switches/embedded/emit/externs.py.
#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_
#include <core.p4>

#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif

match_kind { range, optional, selector }

const bit<32> __v1model_version = V1MODEL_VERSION;
#if V1MODEL_VERSION >= 20200408
typedef bit<9> PortId_t;
#endif

struct standard_metadata_t {
    bit<9>  ingress_port;
    bit<9>  egress_spec;
    bit<9>  egress_port;
    bit<32> instance_type;
    bit<32> packet_length;
    bit<32> enq_timestamp;
    bit<19> enq_qdepth;
    bit<32> deq_timedelta;
    bit<19> deq_qdepth;
    bit<48> ingress_global_timestamp;
    bit<48> egress_global_timestamp;
    bit<16> mcast_grp;
    bit<16> egress_rid;
    bit<1>  checksum_error;
    error   parser_error;
    bit<3>  priority;
}

enum CounterType { packets, bytes, packets_and_bytes }
enum MeterType { packets, bytes }
enum HashAlgorithm { crc32, crc32_custom, crc16, crc16_custom, random, identity, csum16, xor16 }
enum CloneType { I2E, E2E }

#if V1MODEL_VERSION >= 20200408
extern register<T, I> {
    register(bit<32> size);
    void read(out T result, in I index);
    void write(in I index, in T value);
}
extern counter<I> {
    counter(bit<32> size, CounterType type);
    void count(in I index);
}
extern meter<I> {
    meter(bit<32> size, MeterType type);
    void execute_meter<T>(in I index, out T result);
}
#else
extern register<T> {
    register(bit<32> size);
    void read(out T result, in bit<32> index);
    void write(in bit<32> index, in T value);
}
extern counter {
    counter(bit<32> size, CounterType type);
    void count(in bit<32> index);
}
extern meter {
    meter(bit<32> size, MeterType type);
    void execute_meter<T>(in bit<32> index, out T result);
}
#endif
extern direct_counter {
    direct_counter(CounterType type);
    void count();
}
extern direct_meter<T> {
    direct_meter(MeterType type);
    void read(out T result);
}
extern action_profile {
    action_profile(bit<32> size);
}
extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

extern void mark_to_drop(inout standard_metadata_t standard_metadata);
extern void random<T>(out T result, in T lo, in T hi);
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);
extern void digest<T>(in bit<32> receiver, in T data);
extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);
extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);
extern void clone(in CloneType type, in bit<32> session);
extern void clone3<T>(in CloneType type, in bit<32> session, in T data);
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);
extern void resubmit<T>(in T data);
extern void resubmit_preserving_field_list(bit<8> index);
extern void recirculate<T>(in T data);
extern void recirculate_preserving_field_list(bit<8> index);
extern void truncate(in bit<32> length);
extern void assert(in bool check);
extern void assume(in bool check);
extern void log_msg(string msg);
extern void log_msg<T>(string msg, in T data);

parser Parser<H, M>(packet_in packet, out H headers, inout M metadata, inout standard_metadata_t standard);
control VerifyChecksum<H, M>(inout H headers, inout M metadata);
control Ingress<H, M>(inout H headers, inout M metadata, inout standard_metadata_t standard);
control Egress<H, M>(inout H headers, inout M metadata, inout standard_metadata_t standard);
control ComputeChecksum<H, M>(inout H headers, inout M metadata);
control Deparser<H>(packet_out packet, in H headers);
package V1Switch<H, M>(
    Parser<H, M> parse, VerifyChecksum<H, M> verify, Ingress<H, M> ingress, Egress<H, M> egress, ComputeChecksum<H, M> compute,
    Deparser<H> deparse);

#endif
