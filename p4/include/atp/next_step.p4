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
const bit<3> STEP_RETURN = 5;    // to the server that sent it

// What happens, by job; index of the counter `events`, with the job in the upper bits
const bit<32> EVENT_CLAIM = 0;
const bit<32> EVENT_COLLISION = 1;
const bit<32> EVENT_COMPLETE = 2;
const bit<32> EVENT_FLUSH = 3;
const bit<32> EVENT_PASS = 4;        // gradients that go on alone for another reason than a collision
const bit<32> EVENT_FREE = 5;        // by the server's answer
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
    action complete()      { told(STEP_ON_SUM, OP_COMBINE, SLOT_ADD, EVENT_COMPLETE); }
    action collide()       { told(STEP_ON_ALONE, OP_NONE, SLOT_KEEP, EVENT_COLLISION); hdr.atp.collision = 1; }
    action flush_with()    { told(STEP_ON_SUM, OP_COMBINE, SLOT_FREE, EVENT_FLUSH); }
    action flush()         { told(STEP_ON_SUM, OP_READ, SLOT_FREE, EVENT_FLUSH); }
    action pass()          { told(STEP_ON_ALONE, OP_NONE, SLOT_KEEP, EVENT_PASS); }
    action pass_for_good() { told(STEP_ON_ALONE, OP_NONE, SLOT_FREE, EVENT_PASS); }
    action spread()        { meta.operation = OP_NONE; meta.change = SLOT_KEEP; next = STEP_SPREAD; }
    action spread_free()   { told(STEP_SPREAD, OP_NONE, SLOT_FREE, EVENT_FREE); }
    action confirm()       { meta.operation = OP_NONE; meta.change = SLOT_KEEP; next = STEP_RETURN; }
    action confirm_free()  { told(STEP_RETURN, OP_NONE, SLOT_FREE, EVENT_FREE); }
    action go_on()         { meta.operation = OP_NONE; meta.change = SLOT_KEEP; next = STEP_ON; }
    action ignore()        { meta.operation = OP_NONE; meta.change = SLOT_KEEP; next = STEP_DROP; }

    table decision {
        key = {
            hdr.atp.kind    : exact;
            meta.role       : exact;
            hdr.atp.resend  : ternary;
            meta.mergeable  : ternary;
            meta.held       : ternary;
            meta.own        : ternary;
            meta.repeated   : ternary;
            meta.complete   : ternary;
            meta.refused    : ternary;
            meta.closed     : ternary;
        }
        actions = {
            claim; absorb; complete; collide; flush_with; flush; pass; pass_for_good; spread; spread_free; confirm; confirm_free;
            go_on; ignore;
        }
        const default_action = go_on();
        const entries = {
            // kind, role                    resend merge held own rep. compl. ref. closed
            (KIND_GRADIENT, ROLE_AGGREGATE,    _,    0,    _,   _,  _,   _,    _,    _): pass();          // a part of a rack
            (KIND_GRADIENT, ROLE_AGGREGATE,    0,    1,    0,   _,  _,   0,    0,    0): claim();         // free
            (KIND_GRADIENT, ROLE_AGGREGATE,    0,    1,    0,   _,  _,   0,    1,    0): collide();       // free too late
            (KIND_GRADIENT, ROLE_AGGREGATE,    0,    1,    0,   _,  _,   0,    _,    1): pass();          // free, but the job is over
            (KIND_GRADIENT, ROLE_AGGREGATE,    0,    1,    0,   _,  _,   1,    _,    _): pass();          // nobody to wait for
            (KIND_GRADIENT, ROLE_AGGREGATE,    0,    1,    1,   0,  _,   _,    _,    _): collide();       // somebody else's
            (KIND_GRADIENT, ROLE_AGGREGATE,    0,    1,    1,   1,  0,   0,    _,    _): absorb();        // others are missing
            (KIND_GRADIENT, ROLE_AGGREGATE,    0,    1,    1,   1,  0,   1,    _,    _): complete();      // the last one is in
            (KIND_GRADIENT, ROLE_AGGREGATE,    0,    1,    1,   1,  1,   _,    _,    _): ignore();        // a duplicate
            (KIND_GRADIENT, ROLE_AGGREGATE,    1,    1,    _,   1,  0,   _,    _,    _): flush_with();    // let go of it, with this one
            (KIND_GRADIENT, ROLE_AGGREGATE,    1,    1,    _,   1,  1,   _,    _,    _): flush();         // let go of it
            (KIND_GRADIENT, ROLE_AGGREGATE,    1,    1,    _,   0,  _,   _,    _,    _): pass();          // nothing to let go of
            (KIND_RAW,      ROLE_AGGREGATE,    _,    _,    _,   1,  _,   _,    _,    _): pass_for_good(); // integers will not do
            (KIND_RAW,      ROLE_AGGREGATE,    _,    _,    _,   0,  _,   _,    _,    _): pass();
            (KIND_RESULT,   ROLE_ADDRESSEE,    _,    _,    _,   1,  _,   _,    _,    _): spread_free();
            (KIND_RESULT,   ROLE_ADDRESSEE,    _,    _,    _,   0,  _,   _,    _,    _): spread();
            (KIND_RELEASE,  ROLE_ADDRESSEE,    _,    _,    _,   1,  _,   _,    _,    _): confirm_free();
            (KIND_RELEASE,  ROLE_ADDRESSEE,    _,    _,    _,   0,  _,   _,    _,    _): confirm();
            (KIND_RELEASED, ROLE_ADDRESSEE,    _,    _,    _,   _,  _,   _,    _,    _): ignore();        // cannot be
        }
    }

    apply {
        decision.apply();
    }
}

#endif
