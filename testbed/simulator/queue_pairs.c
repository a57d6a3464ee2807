/* A switch's ends of queue pairs, before and behind its pool, as p4/include/switchml/roce_receiver.p4 and roce_sender.p4 have them. */
#include "inside.h"

static QueuePair *queue_pair(World *w, const Packet *p, int32_t below, enum way end) {
    const SimulatedJob *job = &w->jobs[p->job];
    int32_t slot = big_short(((const SwitchmlHeader *)p->header)->slot), first = slot - slot % job->message;
    return &w->pairs[(2 * (int64_t)below + end) * w->pairs_count + job->base / 2 + first];
}

/* Whether a packet that has come is for the pool: a gap costs the rest of a message. What has no vector is a message of its own, as is
   a vector that another switch has sent again. */
bool comes_in_sequence(World *w, const Packet *p) {
    const Branch *b = branch(w, p->tree, p->node);
    const Written *its = (const Written *)p->header;
    int32_t below = p->child < 0 ? p->node : w->children[b->first + p->child];
    QueuePair *q = queue_pair(w, p, below, p->child < 0 ? UP : DOWN);
    if (its->status.header.kind == SWITCHML_CONNECT) {
        q->connected = true;
        loses(w, &w->lines[2 * branch(w, p->tree, below)->link + DOWN]); /* it ends where it would leave for its worker */
        return false;
    }
    if (p->length || !p->lacks)
        return true;
    bool first = !(p->lacks & ADDRESS), follows = first || (q->under_way && q->expected == its->psn);
    q->under_way = follows && p->lacks & IMMEDIATE;
    q->expected = (its->psn + 1) & NUMBERS;
    return follows;
}

/* Number a packet that leaves `way` by the link above the node `below`. False where it does not leave: its message has not begun, or
   there is nobody yet whom it would reach. What is sent `again` to a switch is a message of its own. */
bool number(World *w, Packet *p, int32_t below, enum way way, bool again) {
    Written *its = written(p);
    SwitchmlHeader *header = &its->status.header;
    QueuePair *q = queue_pair(w, p, below, way);
    bool of_switch = below >= w->workers; /* the other end */
    int32_t message = w->jobs[p->job].message, place = big_short(header->slot) % message;
    int64_t begun = (int64_t)big(header->chunk) - place + 1;
    bool alone = p->length || message == 1 || (again && of_switch);
    p->lacks = alone ? 0 : framing(place, message);
    if (alone || place == 0) {
        its->psn = q->next;
        q->next = (q->next + (alone ? 1 : message)) & NUMBERS;
    } else {
        its->psn = (q->first[header->version] + place) & NUMBERS;
    }
    if (!alone && place == 0) {
        q->first[header->version] = its->psn;
        q->begun[header->version] = begun;
    }
    return (alone || q->begun[header->version] == begun) && (of_switch || q->connected);
}
