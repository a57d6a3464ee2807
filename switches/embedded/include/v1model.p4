// The v1model architecture as simple_switch has it. Its externs (register, counter, hash, ...) are known
// to the compiler by name: switches/embedded/externs.py.
#ifndef V1MODEL_P4
#define V1MODEL_P4
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

#endif
