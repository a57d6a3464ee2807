// The protocol's decision, as a truth table. Every combination that can occur has a row of its own.
#ifndef NEXT_STEP_P4
#define NEXT_STEP_P4
#include "headers.p4"
#include "metadata.p4"

// Where a packet goes
const bit<3> STEP_DROP = 0;      // its values are in the aggregator, or were before
const bit<3> STEP_ON = 1;        // on its way, as it came
const bit<3> STEP_ON_ALONE = 2;  // on to the server, as a single child of this level
const bit<3> STEP_ON_SUM = 3;    // on to the server, with all that was gathered here
const bit<3> STEP_SPREAD = 4;    // to all workers
const bit<3> STEP_RETURN = 5;    // confirmed, to the server that sent it
const bit<3> STEP_ANSWER = 6;    // as a status, to the worker that asks
const bit<3> STEP_REPAIR = 7;    // as what is held here, to the server whose status passes, or whose switch's

// What happens, by job; index of the counter `events`, with the job in the upper bits
const bit<32> EVENT_CLAIM = 0;
const bit<32> EVENT_COLLISION = 1;
const bit<32> EVENT_COMPLETE = 2;
const bit<32> EVENT_FLUSH = 3;
const bit<32> EVENT_PASS = 4;        // gradients that go on alone for another reason than a collision
const bit<32> EVENT_FREE = 5;        // by the server's answer
const bit<32> EVENT_ANSWER = 6;      // queries that are answered here
const bit<32> EVENT_REPAIR = 7;      // sums that are sent again, since they were lost further up
#define EVENTS 8

control NextStep(inout headers_t hdr, inout metadata_t meta, out bit<3> next) {
    counter(MAX_JOBS * EVENTS, CounterType.packets) events;

    action told(bit<3> where, bit<2> operation, bit<2> change, bit<32> event) {
        next = where;
        meta.operation = operation;
        meta.change = change;
        events.count((bit<32>)hdr.atp.job * EVENTS + event);
    }

    action claim()         { told(STEP_DROP, OP_STORE, SLOT_CLAIM, EVENT_CLAIM); }
    action absorb()        { meta.operation = OP_COMBINE; meta.change = SLOT_ADD; next = STEP_DROP; }
    action complete()      { told(STEP_ON_SUM, OP_COMBINE, SLOT_ADD, EVENT_COMPLETE); hdr.atp.resend = 0; }  // a whole may claim
    action collide()       { told(STEP_ON_ALONE, OP_NONE, SLOT_KEEP, EVENT_COLLISION); hdr.atp.collision = 1; }
    action flush_with()    { told(STEP_ON_SUM, OP_COMBINE, SLOT_FREE, EVENT_FLUSH); }
    action flush()         { told(STEP_ON_SUM, OP_READ, SLOT_FREE, EVENT_FLUSH); }
    action pass()          { told(STEP_ON_ALONE, OP_NONE, SLOT_KEEP, EVENT_PASS); }
    action pass_for_good() { told(STEP_ON_ALONE, OP_NONE, SLOT_FREE, EVENT_PASS); }
    action spread()        { meta.operation = OP_NONE; meta.change = SLOT_KEEP; next = STEP_SPREAD; }
    action spread_free()   { told(STEP_SPREAD, OP_NONE, SLOT_FREE, EVENT_FREE); }
    // a status turns into a gradient with the aggregator's values
    action carry_vector() {
        hdr.vector.setValid();
        hdr.ipv4.length = BYTES_IPV4 + BYTES_UDP + BYTES_ATP + BYTES_VECTOR;
        hdr.udp.length = BYTES_UDP + BYTES_ATP + BYTES_VECTOR;
    }

    action ask_on()        { meta.operation = OP_NONE; meta.change = SLOT_KEEP; next = STEP_ON_ALONE; }
    action ask_on_for_all() { meta.operation = OP_NONE; meta.change = SLOT_KEEP; next = STEP_ON_SUM; }
    action answer()        { told(STEP_ANSWER, OP_NONE, SLOT_KEEP, EVENT_ANSWER); }
    action repair()        { carry_vector(); told(STEP_REPAIR, OP_READ, SLOT_KEEP, EVENT_REPAIR); }
    action give_up()       { carry_vector(); told(STEP_REPAIR, OP_READ, SLOT_FREE, EVENT_FLUSH); }
    action go_on_free()    { meta.operation = OP_NONE; meta.change = SLOT_FREE; next = STEP_ON; }
    action confirm()       { meta.operation = OP_NONE; meta.change = SLOT_KEEP; next = STEP_RETURN; }
    action confirm_free()  { told(STEP_RETURN, OP_NONE, SLOT_FREE, EVENT_FREE); }
    action go_on()         { meta.operation = OP_NONE; meta.change = SLOT_KEEP; next = STEP_ON; }
    action ignore()        { meta.operation = OP_NONE; meta.change = SLOT_KEEP; next = STEP_DROP; }

    table decision {
        key = {
            hdr.atp.kind    : exact;
            meta.role       : exact;
            hdr.atp.resend  : ternary;
            hdr.atp.asked   : ternary;
            meta.mergeable  : ternary;
            meta.held       : ternary;
            meta.own        : ternary;
            meta.repeated   : ternary;
            meta.complete   : ternary;
            meta.refused    : ternary;
            meta.closed     : ternary;
            meta.asked      : ternary;
        }
        actions = {
            claim; absorb; complete; collide; flush_with; flush; pass; pass_for_good; ask_on; ask_on_for_all; answer;
            spread; spread_free; repair; give_up; go_on_free; confirm; confirm_free; go_on; ignore;
        }
        const default_action = go_on();
        const entries = {
            // kind, role                    resend asked merge held own rep. compl. ref. closed waits
            (KIND_GRADIENT, ROLE_AGGREGATE,    _,    _,    0,    _,   _,  _,   _,    _,    _,   _): pass();           // a part of a rack
            (KIND_GRADIENT, ROLE_AGGREGATE,    0,    _,    1,    0,   _,  _,   0,    0,    0,   _): claim();          // free
            (KIND_GRADIENT, ROLE_AGGREGATE,    0,    _,    1,    0,   _,  _,   0,    1,    0,   _): collide();        // free too late
            (KIND_GRADIENT, ROLE_AGGREGATE,    0,    _,    1,    0,   _,  _,   0,    _,    1,   _): pass();           // free, but the job is over
            (KIND_GRADIENT, ROLE_AGGREGATE,    0,    _,    1,    0,   _,  _,   1,    _,    _,   _): pass();           // nobody to wait for
            (KIND_GRADIENT, ROLE_AGGREGATE,    0,    _,    1,    1,   0,  _,   _,    _,    _,   _): collide();        // somebody else's
            (KIND_GRADIENT, ROLE_AGGREGATE,    0,    _,    1,    1,   1,  0,   0,    _,    _,   _): absorb();         // others are missing
            (KIND_GRADIENT, ROLE_AGGREGATE,    0,    _,    1,    1,   1,  0,   1,    _,    _,   _): complete();       // the last one is in
            (KIND_GRADIENT, ROLE_AGGREGATE,    0,    _,    1,    1,   1,  1,   _,    _,    _,   _): ignore();         // a duplicate
            (KIND_GRADIENT, ROLE_AGGREGATE,    1,    1,    1,    _,   1,  0,   0,    _,    _,   _): absorb();         // likewise, where it was lacking
            (KIND_GRADIENT, ROLE_AGGREGATE,    1,    1,    1,    _,   1,  0,   1,    _,    _,   _): complete();
            (KIND_GRADIENT, ROLE_AGGREGATE,    1,    1,    1,    _,   1,  1,   _,    _,    _,   _): ignore();
            (KIND_GRADIENT, ROLE_AGGREGATE,    1,    0,    1,    _,   1,  0,   _,    _,    _,   _): flush_with();     // let go of it, with this one
            (KIND_GRADIENT, ROLE_AGGREGATE,    1,    0,    1,    _,   1,  1,   _,    _,    _,   _): flush();          // let go of it
            (KIND_GRADIENT, ROLE_AGGREGATE,    1,    _,    1,    _,   0,  _,   _,    _,    _,   _): pass();           // nothing to let go of
            (KIND_RAW,      ROLE_AGGREGATE,    _,    _,    _,    _,   1,  _,   _,    _,    _,   _): pass_for_good();  // integers will not do
            (KIND_RAW,      ROLE_AGGREGATE,    _,    _,    _,    _,   0,  _,   _,    _,    _,   _): pass();
            (KIND_QUERY,    ROLE_AGGREGATE,    _,    _,    0,    _,   _,  _,   _,    _,    _,   _): ask_on();         // a part of a rack
            (KIND_QUERY,    ROLE_AGGREGATE,    _,    _,    1,    _,   0,  _,   _,    _,    _,   _): ask_on();         // nothing is known here
            (KIND_QUERY,    ROLE_AGGREGATE,    _,    _,    1,    _,   1,  1,   1,    _,    _,   0): ask_on_for_all(); // it is not this sum that lacks
            (KIND_QUERY,    ROLE_AGGREGATE,    _,    _,    1,    _,   1,  _,   _,    _,    _,   _): answer();         // others are missing, or this one
            (KIND_RESULT,   ROLE_ADDRESSEE,    _,    _,    _,    _,   1,  _,   _,    _,    _,   _): spread_free();
            (KIND_RESULT,   ROLE_ADDRESSEE,    _,    _,    _,    _,   0,  _,   _,    _,    _,   _): spread();
            (KIND_STATUS,   ROLE_TRANSIT,      _,    _,    1,    _,   1,  0,   1,    _,    _,   _): repair();         // this sum was lost
            (KIND_STATUS,   ROLE_TRANSIT,      _,    0,    1,    _,   1,  1,   0,    _,    _,   _): give_up();        // the others are at the server
            (KIND_STATUS,   ROLE_TRANSIT,      _,    0,    1,    _,   1,  1,   1,    _,    _,   _): go_on_free();     // a part of this sum is
            (KIND_STATUS,   ROLE_ADDRESSEE,    _,    _,    _,    _,   _,  _,   _,    _,    _,   _): ignore();         // cannot be
            (KIND_RELEASE,  ROLE_ADDRESSEE,    _,    _,    _,    _,   1,  _,   _,    _,    _,   _): confirm_free();
            (KIND_RELEASE,  ROLE_ADDRESSEE,    _,    _,    _,    _,   0,  _,   _,    _,    _,   _): confirm();
            (KIND_RELEASED, ROLE_ADDRESSEE,    _,    _,    _,    _,   _,  _,   _,    _,    _,   _): ignore();         // cannot be
        }
    }

    apply {
        decision.apply();
    }
}

#endif
