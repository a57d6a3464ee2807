// The protocol's decision, as a truth table. Every combination that can occur has a row of its own.
#ifndef SWITCHML_NEXT_STEP_P4
#define SWITCHML_NEXT_STEP_P4
#include "headers.p4"
#include "metadata.p4"

// Where a packet goes once its cell is up to date
enum bit<3> switchml_step_t {
    DROP = 0,
    BROADCAST = 1,   // to all workers below
    REPLY = 2,       // to the one who sent it
    UP = 3,          // to the parent switch
    STATUS = 4       // answer a query
}

control SwitchMLNextStep(inout headers_t hdr, inout switchml_metadata_t meta, out switchml_step_t next) {
    // a query or a status turns into a packet with what the cell holds, in the shape of its round
    action carry_held() {
        hdr.status.setInvalid();
        hdr.switchml.mark = 1;
        meta.operation = operation_t.READ;
    }

    action with_tag() {
        hdr.tag.setValid();
        hdr.ipv4.length = BYTES_IPV4 + BYTES_UDP + BYTES_SWITCHML + BYTES_TAG;
        hdr.udp.length = BYTES_UDP + BYTES_SWITCHML + BYTES_TAG;
    }

    action with_vector() {
        hdr.vector.setValid();
        hdr.ipv4.length = BYTES_IPV4 + BYTES_UDP + BYTES_SWITCHML + BYTES_VECTOR;
        hdr.udp.length = BYTES_UDP + BYTES_SWITCHML + BYTES_VECTOR;
    }

    // what happens to the pool (and the exponent) and to the packet
    action absorb_first()   { meta.operation = operation_t.STORE;   next = switchml_step_t.DROP; }
    action absorb()         { meta.operation = operation_t.COMBINE; next = switchml_step_t.DROP; }
    action broadcast_only() { meta.operation = operation_t.STORE;   next = switchml_step_t.BROADCAST; }
    action broadcast()      { meta.operation = operation_t.COMBINE; next = switchml_step_t.BROADCAST; }
    action send_up_only()   { meta.operation = operation_t.STORE;   next = switchml_step_t.UP; }
    action send_up()        { meta.operation = operation_t.COMBINE; next = switchml_step_t.UP; }
    action send_up_again()  { meta.operation = operation_t.READ;    next = switchml_step_t.UP; }
    action retransmit()     { meta.operation = operation_t.READ;    next = switchml_step_t.REPLY; }
    action pass_down()      { meta.operation = operation_t.STORE;   next = switchml_step_t.BROADCAST; }
    action answer_result()  { carry_held();                         next = switchml_step_t.REPLY; }
    action repair()         { carry_held();                         next = switchml_step_t.UP; }
    action relay_status()   { meta.operation = operation_t.NONE;    next = switchml_step_t.BROADCAST; }
    action ask_up()         { meta.operation = operation_t.NONE;    next = switchml_step_t.UP; }
    action answer()         { meta.operation = operation_t.NONE;    next = switchml_step_t.STATUS; }
    action ignore()         { meta.operation = operation_t.NONE;    next = switchml_step_t.DROP; }

    table decision {
        key = {
            hdr.switchml.kind : exact;
            meta.stale        : ternary;
            meta.repeated     : ternary;
            meta.first        : ternary;
            meta.complete     : ternary;
            meta.has_parent   : ternary;
            meta.has_final    : ternary;
            meta.asked        : ternary;
        }
        actions = {
            absorb_first; absorb; broadcast_only; broadcast; send_up_only; send_up; send_up_again; retransmit;
            pass_down; answer_result; repair; relay_status; ask_up; answer; ignore;
        }
        const default_action = ignore();
        const entries = {
            // kind                   stale rep. first compl. parent final asked
            (switchml_kind_t.UPDATE,  1,   _,   _,    _,     _,     _,    _): ignore();          // left behind by its round
            (switchml_kind_t.UPDATE,  0,   0,   1,    0,     _,     _,    _): absorb_first();    // opens the round
            (switchml_kind_t.UPDATE,  0,   0,   0,    0,     _,     _,    _): absorb();          // others are missing
            (switchml_kind_t.UPDATE,  0,   0,   1,    1,     0,     _,    _): broadcast_only();  // a job of one worker
            (switchml_kind_t.UPDATE,  0,   0,   0,    1,     0,     _,    _): broadcast();       // the last one is in
            (switchml_kind_t.UPDATE,  0,   0,   1,    1,     1,     _,    _): send_up_only();    // a rack of one worker
            (switchml_kind_t.UPDATE,  0,   0,   0,    1,     1,     _,    _): send_up();         // the rack is complete
            (switchml_kind_t.UPDATE,  0,   1,   _,    0,     _,     _,    _): ignore();          // a duplicate of what is in
            (switchml_kind_t.UPDATE,  0,   1,   _,    1,     0,     _,    _): retransmit();      // the result was lost on its way down
            (switchml_kind_t.UPDATE,  0,   1,   _,    1,     1,     1,    _): retransmit();      // likewise, below a rack's switch
            (switchml_kind_t.UPDATE,  0,   1,   _,    1,     1,     0,    _): send_up_again();   // the partial sum or its result was lost
            (switchml_kind_t.RESULT,  0,   _,   _,    1,     1,     0,    _): pass_down();       // the sum over all racks
            (switchml_kind_t.RESULT,  _,   _,   _,    _,     _,     _,    _): ignore();          // a second copy, or too late
            (switchml_kind_t.QUERY,   0,   _,   _,    1,     0,     _,    _): answer_result();   // the result was lost on its way down
            (switchml_kind_t.QUERY,   0,   _,   _,    1,     1,     1,    _): answer_result();   // likewise, below a rack's switch
            (switchml_kind_t.QUERY,   0,   _,   _,    1,     1,     0,    0): ask_up();          // it is not this rack that is missing
            (switchml_kind_t.QUERY,   0,   _,   _,    1,     1,     0,    1): ignore();          // somebody asks already, and the answer is for all
            (switchml_kind_t.QUERY,   _,   _,   _,    _,     _,     _,    _): answer();
            (switchml_kind_t.STATUS,  0,   1,   _,    1,     1,     0,    _): relay_status();    // the parent lacks others: to all workers
            (switchml_kind_t.STATUS,  0,   0,   _,    1,     1,     0,    _): repair();          // the partial sum was lost on its way up
        }
    }

    apply {
        bit<1> asking = 0;
        if (hdr.status.isValid()) {
            asking = 1;
        }
        next = switchml_step_t.DROP;
        decision.apply();
        if (asking == 1 && meta.operation == operation_t.READ && meta.flow == flow_t.ALL) {
            if (meta.bare == 1) {
                with_tag();
            } else {
                with_vector();
            }
        }
    }
}

#endif
