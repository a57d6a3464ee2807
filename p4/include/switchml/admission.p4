// Who may touch a slot: a worker, or another switch of its job, at its own port and address, within the job's pool.
#ifndef SWITCHML_ADMISSION_P4
#define SWITCHML_ADMISSION_P4
#include "headers.p4"
#include "metadata.p4"

control SwitchMLAdmission(inout headers_t hdr, inout switchml_metadata_t meta, inout standard_metadata_t standard) {
    counter(SWITCHML_REASONS, CounterType.packets) rejected;
    counter(MAX_JOBS * MAX_WORKERS, CounterType.packets) received;  // by job and worker

    action set_job(cell_t base, slot_t slots, bitmap_t everyone, group_t group, bit<1> has_parent) {
        meta.base = base;
        meta.slots = slots;
        meta.everyone = everyone;
        meta.group = group;
        meta.has_parent = has_parent;
        meta.toward = PARENT;
    }

    // of a job that is aggregated elsewhere
    action pass_by() {
        meta.passes_by = 1;
    }

    action admit_worker() {
        meta.admitted = 1;
        meta.link = hdr.switchml.worker;
        received.count((bit<32>)hdr.switchml.job * MAX_WORKERS + (bit<32>)hdr.switchml.worker);
    }

    action admit_parent(worker_t link) {
        meta.admitted = 1;
        meta.link = link;
    }

    table jobs {
        key = { hdr.switchml.job : exact; }
        actions = { set_job; pass_by; NoAction; }
        size = MAX_JOBS;
        default_action = NoAction();
    }

    table workers {
        key = {
            hdr.switchml.job : exact;
            hdr.switchml.worker : exact;
            standard.ingress_port : exact;
            hdr.ethernet.src : exact;
            hdr.ipv4.src : exact;
        }
        actions = { admit_worker; NoAction; }
        size = MAX_JOBS * MAX_WORKERS;
        default_action = NoAction();
    }

    // of this switch in any tree
    table parents {
        key = {
            hdr.switchml.job : exact;
            standard.ingress_port : exact;
            hdr.ethernet.src : exact;
            hdr.ipv4.src : exact;
        }
        actions = { admit_parent; NoAction; }
        size = MAX_JOBS * MAX_WORKERS;
        default_action = NoAction();
    }

    apply {
        if (meta.well_formed == 0) {
            rejected.count(switchml_reject_t.MALFORMED);
        } else if (!jobs.apply().hit) {
            rejected.count(switchml_reject_t.JOB);
        } else if (meta.passes_by == 1) {
            // where it comes from is for the source guard
        } else if (hdr.switchml.slot >= meta.slots) {
            rejected.count(switchml_reject_t.SLOT);
        } else {
            if (hdr.switchml.kind == switchml_kind_t.UPDATE || hdr.switchml.kind == switchml_kind_t.QUERY || hdr.switchml.kind == switchml_kind_t.CONNECT) {
                workers.apply();
            } else {
                parents.apply();
            }
            if (meta.admitted == 0) {
                rejected.count(switchml_reject_t.SOURCE);
            }
        }
    }
}

// Where the packet's set of its slot lies in the registers.
control Place(in headers_t hdr, inout switchml_metadata_t meta) {
    apply {
        meta.cell = meta.base + (bit<32>)hdr.switchml.slot;
        if (hdr.switchml.version == 1) {
            meta.cell = meta.cell + (bit<32>)meta.slots;
        }
    }
}

#endif
