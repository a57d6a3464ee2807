/* ATP's parameter server: it merges what arrives, and answers workers by way of the switches.

   What somebody waits for, since a packet of the chunk or its result was lost, leaves this host before what does not. */
#include "inside.h"

/* Its peers are the racks' switches, then the workers by rank. */
AtpServer *atp_server_new(Merger *merger, int32_t switches, int32_t own_switch, const Datagrams *statuses, int64_t first_status) {
    AtpServer *s = calloc(1, sizeof *s);
    s->merger = merger;
    s->statuses = *statuses;
    s->first_status = first_status;
    s->first_worker = switches;
    s->own_switch = own_switch;
    departures_init(&s->departures, 2 * (int64_t)merger->window, switches, own_switch, merger->members);
    return s;
}

void atp_server_free(AtpServer *s) {
    departures_free(&s->departures);
    free(s->outbox.leaving);
    free(s->outbox.sends);
    free(s);
}

/* Send the results of these rows, in this order: others name them (succession.c). */
static void send(AtpServer *s, const int32_t *rows, int count, int32_t peer, double now, bool urgent) {
    for (int i = 0, end; i < count; i = end) {
        bool bare = s->merger->rows[rows[i]].bare;
        for (end = i; end < count && s->merger->rows[rows[end]].bare == bare; end++)
            departures_sent(&s->departures, rows[end], peer, urgent, bare ? s->status_seconds : s->result_seconds, now);
        outbox_put(&s->outbox, rows + i, end - i, 0, peer, bare ? sizeof(AtpBare) : s->merger->packet_bytes, urgent);
    }
}

/* Send results again to the peers that ask, unless copies for them still wait here. */
static void repeat(AtpServer *s, const Asked *wanted, int64_t count, double now, bool urgent) {
    Asked *lacking = malloc((s->departures.rows + 1) * sizeof *lacking);
    int32_t *rows = malloc((s->departures.rows + 1) * sizeof *rows);
    int64_t left = departures_lacking(&s->departures, wanted, count, now, lacking);
    for (int32_t peer = 0; left && peer < s->first_worker + s->merger->workers; peer++) {
        int n = 0;
        for (int64_t i = 0; i < left; i++)
            if (lacking[i].worker == peer)
                rows[n++] = lacking[i].row;
        send(s, rows, n, peer, now, urgent);
    }
    s->repeated += left;
    free(lacking);
    free(rows);
}

/* Results of these rows go to all; those of chunks of which something was sent again are `late`. */
static void send_finished(AtpServer *s, bool late, double now) {
    const Merger *m = s->merger;
    int32_t rows[m->finished_count + 1];
    int n = 0;
    for (int64_t i = 0; i < m->finished_count; i++)
        if (((header(&m->results, m->finished[i])->flags & RESEND) > 0) == late)
            rows[n++] = m->finished[i];
    send(s, rows, n, s->own_switch, now, late);
}

/* Send statuses, which are the first rows of those, to workers. */
static void tell(AtpServer *s, double now) {
    const Merger *m = s->merger;
    int32_t rows[m->asking_count + 1];
    for (int32_t worker = 0; m->asking_count && worker < m->workers; worker++) {
        int n = 0;
        for (int64_t i = 0; i < m->asking_count; i++)
            if (m->asking[i] == worker)
                rows[n++] = i;
        if (n)
            outbox_put(&s->outbox, rows, n, s->first_status, s->first_worker + worker, sizeof(AtpHeader), true);
    }
    departures_occupied(&s->departures, m->asking_count, true, s->status_seconds, now);
}

/* Take in packets; results go to all, repetitions and statuses to those who ask. */
void atp_server_received(AtpServer *s, const Datagrams *packets, double now) {
    Merger *m = s->merger;
    merger_take(m, packets, &s->statuses);
    send_finished(s, false, now);
    for (int64_t i = 0; i < m->asked_count; i++)
        m->asked[i].worker += s->first_worker;
    if (m->asked_count)
        repeat(s, m->asked, m->asked_count, now, false);
    send_finished(s, true, now);
    Asked *peers = malloc((m->ready_count + 1) * sizeof *peers);
    for (int64_t i = 0; i < m->ready_count; i++) {
        const Ready *r = &m->ready[i];
        peers[i] = (Asked){r->row, r->worker >= 0 ? s->first_worker + r->worker : r->rack >= 0 ? r->rack : s->own_switch};
    }
    if (m->ready_count)
        repeat(s, peers, m->ready_count, now, true);
    free(peers);
    tell(s, now);
}
