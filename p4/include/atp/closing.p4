// Groups that are over. A server's release closes its group: packets still on their way then claim no aggregator, which
// nobody would free.
#ifndef CLOSING_P4
#define CLOSING_P4
#include "headers.p4"
#include "metadata.p4"

control Closing(in headers_t hdr, inout atp_metadata_t meta) {
    register<epoch_t>(MAX_JOBS) closed;  // the epoch that claims no more

    apply {
        bit<32> job = (bit<32>)hdr.atp.job;
        epoch_t over;
        closed.read(over, job);
        meta.closed = 0;
        if (over == hdr.atp.epoch) {
            meta.closed = 1;
        }
        if (hdr.atp.kind == atp_kind_t.RELEASE && meta.role == role_t.ADDRESSEE && meta.outdated == 0) {
            closed.write(job, hdr.atp.epoch);
        }
    }
}

#endif
