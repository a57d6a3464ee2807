// The protocol's decision, as a truth table. Every combination that can occur has a row of its own.
#ifndef ATP_NEXT_STEP_P4
#define ATP_NEXT_STEP_P4
#include "headers.p4"
#include "metadata.p4"

// Where a packet goes
enum bit<3> atp_step_t {
    DROP = 0,      // its values are in the aggregator, or were before
    ON = 1,        // on its way, as it came
    ON_ALONE = 2,  // on to the server, as a single child of this level
    ON_SUM = 3,    // on to the server, with all that was gathered here
    SPREAD = 4,    // to all workers
    RETURN = 5,    // confirmed, to the server that sent it
    ANSWER = 6,    // as a status, to the worker that asks
    REPAIR = 7     // as what is held here, to the server whose status passes, or whose switch's
}

// What happens, by job; index of the counter `events`, with the job in the upper bits
enum bit<32> event_t {
    CLAIM = 0,
    COLLISION = 1,
    COMPLETE = 2,
    FLUSH = 3,
    PASS = 4,        // gradients that go on alone for another reason than a collision
    FREE = 5,        // by the server's answer
    ANSWER = 6,      // queries that are answered here
    REPAIR = 7       // sums that are sent again, since they were lost further up
}
#define EVENTS 8

control AtpNextStep(inout headers_t hdr, inout atp_metadata_t meta, out atp_step_t next) {
    counter(MAX_JOBS * EVENTS, CounterType.packets) events;

    action decide(atp_step_t where, operation_t operation, change_t change) {
        next = where;
        meta.operation = operation;
        meta.change = change;
    }

    action count(event_t event) {
        events.count((bit<32>)hdr.atp.job * EVENTS + event);
    }

    // a status turns into a gradient with what the aggregator holds
    action with_vector() {
        hdr.vector.setValid();
        hdr.ipv4.length = BYTES_IPV4 + BYTES_UDP + BYTES_ATP + BYTES_VECTOR;
        hdr.udp.length = BYTES_UDP + BYTES_ATP + BYTES_VECTOR;
    }

    action without_vector() {
        hdr.tag.setValid();
        hdr.largest.setValid();
        hdr.ipv4.length = BYTES_IPV4 + BYTES_UDP + BYTES_BARE;
        hdr.udp.length = BYTES_UDP + BYTES_BARE;
    }

    action claim()          { decide(atp_step_t.DROP,     operation_t.STORE,   change_t.CLAIM); count(event_t.CLAIM); }
    action absorb()         { decide(atp_step_t.DROP,     operation_t.COMBINE, change_t.ADD); }
    // a whole may claim further up, also where a part of it was sent again
    action complete()       { decide(atp_step_t.ON_SUM,   operation_t.COMBINE, change_t.ADD);   count(event_t.COMPLETE); hdr.atp.resend = 0; }
    action collide()        { decide(atp_step_t.ON_ALONE, operation_t.NONE,    change_t.KEEP);  count(event_t.COLLISION); hdr.atp.collision = 1; }
    action flush_with()     { decide(atp_step_t.ON_SUM,   operation_t.COMBINE, change_t.FREE);  count(event_t.FLUSH); }
    action flush()          { decide(atp_step_t.ON_SUM,   operation_t.READ,    change_t.FREE);  count(event_t.FLUSH); }
    action pass()           { decide(atp_step_t.ON_ALONE, operation_t.NONE,    change_t.KEEP);  count(event_t.PASS); }
    action pass_for_good()  { decide(atp_step_t.ON_ALONE, operation_t.NONE,    change_t.FREE);  count(event_t.PASS); }
    action ask_on()         { decide(atp_step_t.ON_ALONE, operation_t.NONE,    change_t.KEEP); }
    action ask_on_for_all() { decide(atp_step_t.ON_SUM,   operation_t.NONE,    change_t.KEEP); }
    action answer()         { decide(atp_step_t.ANSWER,   operation_t.NONE,    change_t.KEEP);  count(event_t.ANSWER); }
    action spread()         { decide(atp_step_t.SPREAD,   operation_t.NONE,    change_t.KEEP); }
    action spread_free()    { decide(atp_step_t.SPREAD,   operation_t.NONE,    change_t.FREE);  count(event_t.FREE); }
    action repair()         { decide(atp_step_t.REPAIR,   operation_t.READ,    change_t.KEEP);  count(event_t.REPAIR); }
    action give_up()        { decide(atp_step_t.REPAIR,   operation_t.READ,    change_t.FREE);  count(event_t.FLUSH); }
    action go_on_free()     { decide(atp_step_t.ON,       operation_t.NONE,    change_t.FREE); }
    action confirm()        { decide(atp_step_t.RETURN,   operation_t.NONE,    change_t.KEEP); }
    action confirm_free()   { decide(atp_step_t.RETURN,   operation_t.NONE,    change_t.FREE);  count(event_t.FREE); }
    action go_on()          { decide(atp_step_t.ON,       operation_t.NONE,    change_t.KEEP); }
    action ignore()         { decide(atp_step_t.DROP,     operation_t.NONE,    change_t.KEEP); }

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
            // kind, role                              resend asked merge held own rep. compl. ref. closed waits
            (atp_kind_t.GRADIENT, role_t.AGGREGATE,    _,    _,    0,    _,   _,  _,   _,    _,    _,   _): pass();           // a part of a rack
            (atp_kind_t.GRADIENT, role_t.AGGREGATE,    0,    _,    1,    0,   _,  _,   0,    0,    0,   _): claim();          // free
            (atp_kind_t.GRADIENT, role_t.AGGREGATE,    0,    _,    1,    0,   _,  _,   0,    1,    0,   _): collide();        // free too late
            (atp_kind_t.GRADIENT, role_t.AGGREGATE,    0,    _,    1,    0,   _,  _,   0,    _,    1,   _): pass();           // free, but the job is over
            (atp_kind_t.GRADIENT, role_t.AGGREGATE,    0,    _,    1,    0,   _,  _,   1,    _,    _,   _): pass();           // nobody to wait for
            (atp_kind_t.GRADIENT, role_t.AGGREGATE,    0,    _,    1,    1,   0,  _,   _,    _,    _,   _): collide();        // somebody else's
            (atp_kind_t.GRADIENT, role_t.AGGREGATE,    0,    _,    1,    1,   1,  0,   0,    _,    _,   _): absorb();         // others are missing
            (atp_kind_t.GRADIENT, role_t.AGGREGATE,    0,    _,    1,    1,   1,  0,   1,    _,    _,   _): complete();       // the last one is in
            (atp_kind_t.GRADIENT, role_t.AGGREGATE,    0,    _,    1,    1,   1,  1,   _,    _,    _,   _): ignore();         // a duplicate
            (atp_kind_t.GRADIENT, role_t.AGGREGATE,    1,    1,    1,    _,   1,  0,   0,    _,    _,   _): absorb();         // likewise, where it was lacking
            (atp_kind_t.GRADIENT, role_t.AGGREGATE,    1,    1,    1,    _,   1,  0,   1,    _,    _,   _): complete();
            (atp_kind_t.GRADIENT, role_t.AGGREGATE,    1,    1,    1,    _,   1,  1,   _,    _,    _,   _): ignore();
            (atp_kind_t.GRADIENT, role_t.AGGREGATE,    1,    0,    1,    _,   1,  0,   _,    _,    _,   _): flush_with();     // let go of it, with this one
            (atp_kind_t.GRADIENT, role_t.AGGREGATE,    1,    0,    1,    _,   1,  1,   _,    _,    _,   _): flush();          // let go of it
            (atp_kind_t.GRADIENT, role_t.AGGREGATE,    1,    _,    1,    _,   0,  _,   _,    _,    _,   _): pass();           // nothing to let go of
            (atp_kind_t.RAW,      role_t.AGGREGATE,    _,    _,    _,    _,   1,  _,   _,    _,    _,   _): pass_for_good();  // integers will not do
            (atp_kind_t.RAW,      role_t.AGGREGATE,    _,    _,    _,    _,   0,  _,   _,    _,    _,   _): pass();
            (atp_kind_t.QUERY,    role_t.AGGREGATE,    _,    _,    0,    _,   _,  _,   _,    _,    _,   _): ask_on();         // a part of a rack
            (atp_kind_t.QUERY,    role_t.AGGREGATE,    _,    _,    1,    _,   0,  _,   _,    _,    _,   _): ask_on();         // nothing is known here
            (atp_kind_t.QUERY,    role_t.AGGREGATE,    _,    _,    1,    _,   1,  1,   1,    _,    _,   0): ask_on_for_all(); // it is not this sum that lacks
            (atp_kind_t.QUERY,    role_t.AGGREGATE,    _,    _,    1,    _,   1,  _,   _,    _,    _,   _): answer();         // others are missing, or this one
            (atp_kind_t.RESULT,   role_t.ADDRESSEE,    _,    _,    _,    _,   1,  _,   _,    _,    _,   _): spread_free();
            (atp_kind_t.RESULT,   role_t.ADDRESSEE,    _,    _,    _,    _,   0,  _,   _,    _,    _,   _): spread();
            (atp_kind_t.STATUS,   role_t.TRANSIT,      _,    _,    1,    _,   1,  0,   1,    _,    _,   _): repair();         // this sum was lost
            (atp_kind_t.STATUS,   role_t.TRANSIT,      _,    0,    1,    _,   1,  1,   0,    _,    _,   _): give_up();        // the others are at the server
            (atp_kind_t.STATUS,   role_t.TRANSIT,      _,    0,    1,    _,   1,  1,   1,    _,    _,   _): go_on_free();     // a part of this sum is
            (atp_kind_t.STATUS,   role_t.ADDRESSEE,    _,    _,    _,    _,   _,  _,   _,    _,    _,   _): ignore();         // cannot be
            (atp_kind_t.RELEASE,  role_t.ADDRESSEE,    _,    _,    _,    _,   1,  _,   _,    _,    _,   _): confirm_free();
            (atp_kind_t.RELEASE,  role_t.ADDRESSEE,    _,    _,    _,    _,   0,  _,   _,    _,    _,   _): confirm();
            (atp_kind_t.RELEASED, role_t.ADDRESSEE,    _,    _,    _,    _,   _,  _,   _,    _,    _,   _): ignore();         // cannot be
        }
    }

    apply {
        decision.apply();
        if (next == atp_step_t.REPAIR) {
            if (meta.bare == 1) {
                without_vector();
            } else {
                with_vector();
            }
        }
    }
}

#endif
