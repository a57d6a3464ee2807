// Which group of a job a packet belongs to. A job's workers draw an epoch whenever they form a group; it grows from group
// to group (hosts/epoch.py), so whatever an earlier group left behind, on its way or in a register, is told from what is
// current. Workers alone begin an epoch. Epochs are compared modulo 2^32 (RFC 1982); 0 is none.
#ifndef EPOCH_P4
#define EPOCH_P4
#include "sizes.p4"

control Epoch(in job_t job, in epoch_t epoch, in bit<1> may_begin, out epoch_t current, out bit<1> outdated) {
    register<epoch_t>(MAX_JOBS) newest;
    counter(MAX_JOBS, CounterType.packets) outdated_packets;  // of another group than the newest

    apply {
        bit<32> index = (bit<32>)job;
        outdated = 0;
        newest.read(current, index);
        if (epoch != current) {
            int<32> ahead = (int<32>)(epoch - current);
            if (may_begin == 1 && (current == 0 || ahead > 0)) {
                current = epoch;
                newest.write(index, epoch);
            } else {
                outdated = 1;
                outdated_packets.count(index);
            }
        }
    }
}

#endif
