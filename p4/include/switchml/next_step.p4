// The protocol's decision, as a truth table. Every combination that can occur has a row of its own.
#ifndef NEXT_STEP_P4
#define NEXT_STEP_P4
#include "headers.p4"
#include "metadata.p4"

// Where a packet goes once its cell is up to date
const bit<3> STEP_DROP = 0;
const bit<3> STEP_BROADCAST = 1;   // to all workers below
const bit<3> STEP_REPLY = 2;       // to the one who sent it
const bit<3> STEP_UP = 3;          // to the parent switch
const bit<3> STEP_STATUS = 4;      // answer a query

control NextStep(inout headers_t hdr, inout metadata_t meta, out bit<3> next) {
    // a query or a status turns into a packet with the cell's vector
    action carry_vector() {
        hdr.status.setInvalid();
        hdr.vector.setValid();
        hdr.ipv4.length = BYTES_IPV4 + BYTES_UDP + BYTES_SWITCHML + BYTES_VECTOR;
        hdr.udp.length = BYTES_UDP + BYTES_SWITCHML + BYTES_VECTOR;
        hdr.switchml.mark = 1;
        meta.operation = OP_READ;
    }

    // what happens to the pool (and the exponent) and to the packet
    action absorb_first()   { meta.operation = OP_STORE;   next = STEP_DROP; }
    action absorb()         { meta.operation = OP_COMBINE; next = STEP_DROP; }
    action broadcast_only() { meta.operation = OP_STORE;   next = STEP_BROADCAST; }
    action broadcast()      { meta.operation = OP_COMBINE; next = STEP_BROADCAST; }
    action send_up_only()   { meta.operation = OP_STORE;   next = STEP_UP; }
    action send_up()        { meta.operation = OP_COMBINE; next = STEP_UP; }
    action send_up_again()  { meta.operation = OP_READ;    next = STEP_UP; }
    action retransmit()     { meta.operation = OP_READ;    next = STEP_REPLY; }
    action pass_down()      { meta.operation = OP_STORE;   next = STEP_BROADCAST; }
    action answer_result()  { carry_vector();              next = STEP_REPLY; }
    action repair()         { carry_vector();              next = STEP_UP; }
    action relay_status()   { meta.operation = OP_NONE;    next = STEP_BROADCAST; }
    action ask_up()         { meta.operation = OP_NONE;    next = STEP_UP; }
    action answer()         { meta.operation = OP_NONE;    next = STEP_STATUS; }
    action ignore()         { meta.operation = OP_NONE;    next = STEP_DROP; }

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
            // kind       stale rep. first compl. parent final asked
            (KIND_UPDATE,  1,   _,   _,    _,     _,     _,    _): ignore();          // left behind by its round
            (KIND_UPDATE,  0,   0,   1,    0,     _,     _,    _): absorb_first();    // opens the round
            (KIND_UPDATE,  0,   0,   0,    0,     _,     _,    _): absorb();          // others are missing
            (KIND_UPDATE,  0,   0,   1,    1,     0,     _,    _): broadcast_only();  // a job of one worker
            (KIND_UPDATE,  0,   0,   0,    1,     0,     _,    _): broadcast();       // the last one is in
            (KIND_UPDATE,  0,   0,   1,    1,     1,     _,    _): send_up_only();    // a rack of one worker
            (KIND_UPDATE,  0,   0,   0,    1,     1,     _,    _): send_up();         // the rack is complete
            (KIND_UPDATE,  0,   1,   _,    0,     _,     _,    _): ignore();          // a duplicate of what is in
            (KIND_UPDATE,  0,   1,   _,    1,     0,     _,    _): retransmit();      // the result was lost on its way down
            (KIND_UPDATE,  0,   1,   _,    1,     1,     1,    _): retransmit();      // likewise, below a rack's switch
            (KIND_UPDATE,  0,   1,   _,    1,     1,     0,    _): send_up_again();   // the partial sum or its result was lost
            (KIND_RESULT,  0,   _,   _,    1,     1,     0,    _): pass_down();       // the sum over all racks
            (KIND_RESULT,  _,   _,   _,    _,     _,     _,    _): ignore();          // a second copy, or too late
            (KIND_QUERY,   0,   _,   _,    1,     0,     _,    _): answer_result();   // the result was lost on its way down
            (KIND_QUERY,   0,   _,   _,    1,     1,     1,    _): answer_result();   // likewise, below a rack's switch
            (KIND_QUERY,   0,   _,   _,    1,     1,     0,    0): ask_up();          // it is not this rack that is missing
            (KIND_QUERY,   0,   _,   _,    1,     1,     0,    1): ignore();          // somebody asks already, and the answer is for all
            (KIND_QUERY,   _,   _,   _,    _,     _,     _,    _): answer();
            (KIND_STATUS,  0,   1,   _,    1,     1,     0,    _): relay_status();    // the parent lacks others: to all workers
            (KIND_STATUS,  0,   0,   _,    1,     1,     0,    _): repair();          // the partial sum was lost on its way up
        }
    }

    apply {
        next = STEP_DROP;
        decision.apply();
    }
}

#endif
