/* What a worker does about chunks whose results do not come: send them again, or ask first what has become of them.

   Silence has many causes. The worker's own packet is lost, or its result, or another worker's packet; another worker is slow; or
   all is well, and a queue is long. Sending a chunk again helps against the first two alone, and costs a full packet in every other
   case, from every worker at once. A query is a header. */
#include "inside.h"

#define IN_ORDER 16       /* windows of results in order after which fewer are enough again */
#define LONGEST_BACKOFF 3 /* doublings of the time, or of the results, between two queries about a chunk that lacks others */
#define LONGEST_WAIT 1.0  /* seconds between them */
#define SOON 2            /* queries about a chunk that is overtaken that do not wait for a timeout */
#define UNSAMPLED 4       /* timeouts without a sample after which a result that comes twice shows that they are too short */

static Timer *timer_of(const Stream *s, int32_t row) { return &s->paths[s->rows[row].path].timer; }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Others move, so what is not asked about yet was lost, not late, if it waits for another timeout.

   Returns whether there are gaps: rows that results have overtaken. */
static bool pull(Stream *s, double now) {
    double within = INFINITY;
    for (int32_t path = 0; path < s->paths_count; path++)
        within = fmin(within, now + s->paths[path].timer.timeouts[0]);
    if (!s->gaps && s->latest <= within)
        return false; /* as nearly always */
    s->gaps = false;
    s->latest = 0;
    for (int32_t i = s->first; i >= 0; i = s->rows[i].after) {
        Row *row = &s->rows[i];
        s->gaps |= row->overtaken > 0 || row->passed > 0;
        double deadline = now + timer_of(s, i)->timeouts[0];
        stream_set_deadline(s, row, row->pressed ? row->deadline : fmin(row->deadline, deadline));
    }
    return s->gaps;
}

/* The silence goes on: try two rows next, four, up to an eighth of all. A burst of losses lasts for so many packets. */
static void go_on(Stream *s) { s->probing = least(2 * s->probing, most(1, s->count / 8)); }

static int sooner(const void *a, const void *b, void *rows) {
    const Row *x = (const Row *)rows + *(const int32_t *)a, *y = (const Row *)rows + *(const int32_t *)b;
    return x->asked != y->asked ? (x->asked > y->asked) - (x->asked < y->asked) : (x->order > y->order) - (x->order < y->order);
}

/* Put rows in the order of how often they were asked about, and then of when they were sent; how many of them are tried. */
static int first_of(const Stream *s, int32_t *rows, int count) {
    qsort_r(rows, count, sizeof *rows, sooner, s->rows);
    return least(count, s->probing);
}

/* --- resending (SwitchML, section 3.5): a chunk whose timer has run out is sent again; at gaps also one that results have overtaken

   A chunk that only waits in a queue is spared: something sent later must have come back, or nothing for a whole timeout. */

static void resending_settled(Stream *s, double now) {
    s->probing = 1;
    if (!pull(s, now) || s->recovery != RESENDING_AT_GAPS)
        return;
    int32_t lost[s->count];
    int n = 0;
    for (int32_t i = 0; i < s->count; i++)
        if (s->rows[i].chunk >= 0 && s->rows[i].overtaken >= GAP && s->rows[i].tries == 0)
            lost[n++] = i;
    stream_retransmit(s, lost, n, now, false);
}

static void resending_expired(Stream *s, const int32_t *rows, int count, double now) {
    int32_t lost[count + 1];
    int n = 0;
    if (s->heard_at <= s->rows[s->first].sent_at) { /* a straggler, more often than losses */
        for (int i = 0; i < count; i++)
            stream_set_deadline(s, &s->rows[rows[i]], now + timer_of(s, rows[i])->timeouts[0]);
        memcpy(lost, rows, count * sizeof *rows);
        n = first_of(s, lost, count); /* the oldest */
        go_on(s);
    } else
        for (int i = 0; i < count; i++) {
            Row *row = &s->rows[rows[i]];
            double again = s->heard_at + timer_of(s, rows[i])->timeouts[0];
            if (row->overtaken == 0 && again > now)
                stream_set_deadline(s, row, again);
            else
                lost[n++] = rows[i];
        }
    if (n) {
        s->counters.timeouts++;
        s->timed_out_at = now;
    }
    stream_retransmit(s, lost, n, now, false);
}

/* --- asking: a chunk that is overdue is asked about, and sent again where the answer is that the switch lacks it

   One is overdue when three results of chunks sent later have come, or fewer at the end of what is under way, or when its timer runs
   out and no results come. Where the answer is that others are missing, the next query waits: for a window of results, then for two;
   or for two round trips of what is urgent, then for twice that, and then for timeouts.

   In a silence the oldest chunk is asked about for all. While the silence lasts others are, in turn, more at a time and less often:
   two workers may each wait for a packet that the other one has lost.

   Where a scheme sees that packets do not keep their order, twice as many results have to overtake a chunk, up to a window: needless
   queries would be answered by whole results. TCP's reordering window (RFC 8985, section 6.2) is a time, and grows step by step.

   Where results have overtaken a chunk, its packet has left this host, and so it has, nearly always, where an answer to an earlier
   query is overdue: the query is urgent, and so is what is sent again for an answer. They leave before what waits in this host's
   queue, and their round trips have a timer of their own. */

/* By number of tries, in seconds; infinite until a round trip is known. Who asks waits for the slower kind of answer. */
static double urgent_timeout(const Stream *s, int tries) {
    double status = s->by_status.srtt > 0 ? s->by_status.timeouts[tries] : 0;
    double result = s->by_result.srtt > 0 ? s->by_result.timeouts[tries] : 0;
    double longest = fmax(status, result);
    return longest > 0 ? longest : INFINITY;
}

/* Ask about these rows. The next query waits twice as long each time that none is answered; what is urgent up to the stream's
   timeout, since an answer may wait in a queue that is longer than any urgent round trip before. */
static void query(Stream *s, const int32_t *rows, int count, double now, bool urgent) {
    bool again[count + 1];
    if (!count)
        return;
    for (int i = 0; i < count; i++) {
        Row *row = &s->rows[rows[i]];
        const double *timeouts = timer_of(s, rows[i])->timeouts;
        again[i] = row->informed + row->asked > 0;
        row->asked++;
        row->asked_at = urgent ? now : 0;
        double wait = urgent ? fmin(timeouts[0], urgent_timeout(s, 0)) : timeouts[0];
        int64_t unanswered = row->asked - most(row->informed, 1);
        stream_set_deadline(s, row, now + fmin(wait * pow(2, unanswered), timeouts[urgent ? 0 : MOST_BACKOFF]));
    }
    s->scheme->ask(s, rows, again, count, urgent);
    s->counters.queries += count;
}

/* Ask about rows that others have overtaken; not again before another window of results has. */
static void overdue(Stream *s, const int32_t *rows, int count, double now) {
    for (int i = 0; i < count; i++) {
        s->rows[rows[i]].pressed++;
        s->rows[rows[i]].overtaken = 0;
    }
    query(s, rows, count, now, true);
}

/* A timeout, doubled the more often waiting so long has been in vain. */
static double longer(double timeout, int64_t vain) {
    return fmin(timeout * (double)(1 << least(most(vain - 1, 0), LONGEST_BACKOFF)), LONGEST_WAIT);
}

/* Do not ask about these rows for a timeout, doubled the more often that has been in vain.

   What is lacking of a chunk that results have overtaken is sent again urgently: the first waits are two urgent ones. In a silence
   somebody is late, as a rule, and whatever was asked about has been in vain. */
static void wait_longer(Stream *s, const int32_t *rows, int count, double now) {
    double soon = 2 * urgent_timeout(s, 0);
    for (int i = 0; i < count; i++) {
        Row *row = &s->rows[rows[i]];
        double wait = timer_of(s, rows[i])->timeouts[0];
        int64_t vain = row->asked;
        if (row->pressed > 0 && vain <= SOON)
            wait = fmin(wait, soon);
        else if (row->pressed == 0)
            vain = most(vain, s->silence);
        stream_set_deadline(s, row, now + longer(wait, vain));
    }
}

/* Statuses about these rows, or results that were sent again, have come: round trips of urgent queries, by Karn's rule.

   A result is as good an answer as a status, and slower: it waits where vectors do. If it did not count, queries would be repeated
   while their answers wait, each for another vector, until slow links carry nothing else. What was sent again for somebody else's
   sake counts, too, and makes timeouts longer: without it ATP's sums take 1.9 times as long at 0.8 Mbit/s and 1 % loss, with it 1.3
   (--target virtual). */
static void answers(Stream *s, const int32_t *rows, int count, Timer *timer, double now) {
    double round_trips[count + 1];
    int n = 0;
    for (int i = 0; i < count; i++)
        if (s->rows[rows[i]].asked == 1 && s->rows[rows[i]].asked_at > 0)
            round_trips[n++] = now - s->rows[rows[i]].asked_at;
    timer_sample(timer, round_trips, n);
}

/* What was asked about in a silence was lost, and so may be what was sent after it, on these paths, until the silence: ask about more
   of that. A query about what was sent since would overtake it in this host's queue, and the answer be that it is lacking. */
static void follow(Stream *s, const bool *on_path, double now) {
    if (!s->silence)
        return;
    go_on(s);
    int32_t untouched[s->count];
    bool quiet[s->count];
    for (int32_t i = 0; i < s->count; i++) {
        const Row *row = &s->rows[i];
        quiet[i] = row->chunk >= 0 && row->overtaken == 0 && row->tries == 0 && row->asked == 0 && row->sent_at < s->timed_out_at;
    }
    for (int32_t path = 0; path < s->paths_count; path++) {
        int n = 0;
        for (int32_t i = 0; i < s->count && on_path[path]; i++)
            if (quiet[i] && s->rows[i].path == path)
                untouched[n++] = i;
        query(s, untouched, first_of(s, untouched, n), now, true);
    }
}

static void paths_of(const Stream *s, const int32_t *rows, int count, bool *on_path) {
    memset(on_path, 0, s->paths_count * sizeof *on_path);
    for (int i = 0; i < count; i++)
        on_path[s->rows[rows[i]].path] = true;
}

/* So many results have come. */
static void in_order_again(Stream *s, int count) {
    if (s->gap > GAP && (s->ordered += count) >= (int64_t)IN_ORDER * s->count) {
        s->gap = (int32_t)most(s->gap / 2, GAP);
        s->ordered = 0;
    }
}

/* Whether results have overtaken a row for long enough: the gap, and once it has been asked about for that, a window, two, and so on.

   At the end of what is under way fewer are enough, where no more than that can come; without order all that can have to come. A row
   is late, too, once half a window of results has passed it that may come first. */
static bool late(const Stream *s, const Row *row) {
    if (row->chunk < 0)
        return false;
    if (row->pressed == 0 && row->passed >= most(s->count / 2, GAP))
        return true;
    if (row->overtaken == 0)
        return false;
    if (row->pressed > 0)
        return row->overtaken >= (int64_t)s->count << least(row->pressed - 1, LONGEST_BACKOFF);
    int64_t gap = s->gap, later = row->overtaken;
    for (int32_t i = 0; i < s->count && later < gap; i++)
        later += s->rows[i].chunk >= 0 && s->rows[i].path == row->path && in_order(s->rows[i].part, row->part) && s->rows[i].order > row->order;
    return row->overtaken >= gap || (later < gap && (gap == GAP || row->overtaken == later));
}

static void asking_settled(Stream *s, const int32_t *rows, const bool *once, int count, double now) {
    int32_t found[count > s->count ? count : s->count];
    bool all_asked = true, vain = false, on_path[s->paths_count];
    int n = 0;
    for (int i = 0; i < count; i++) {
        const Row *row = &s->rows[rows[i]];
        all_asked &= row->asked > 0;
        if (once[i])
            continue;
        vain |= row->asked > most(row->informed, 1);
        found[n++] = rows[i];
    }
    in_order_again(s, count);
    if (n) {
        answers(s, found, n, &s->by_result, now);
        if (vain)
            timer_needless(&s->by_result, now);
    }
    if (n && all_asked) {
        paths_of(s, found, n, on_path);
        follow(s, on_path, now);
    } else {
        s->probing = 1;
        s->silence = 0;
        for (int32_t path = 0; path < s->paths_count; path++)
            s->paths[path].quiet_until = 0;
    }
    if (!pull(s, now))
        return;
    n = 0;
    for (int32_t i = 0; i < s->count; i++)
        if (late(s, &s->rows[i]))
            found[n++] = i;
    overdue(s, found, n, now);
}

/* The deadlines of these rows of a path are over, and nothing has overtaken them.

   A query that had no answer is sent again. Of the other rows those are asked about that were asked about least, and none for a
   while afterwards. Rows whose deadlines are not over have no part in this: as long as other workers ask about them, too, these move
   on, and a row that this worker alone can ask about would never have its turn. */
static void in_silence(Stream *s, Path *path, const int32_t *rows, int count, double now) {
    int32_t unanswered[count + 1], others[count + 1];
    int n = 0, m = 0, tried = 0;
    for (int i = 0; i < count; i++)
        if (s->rows[rows[i]].asked > 0 && s->rows[rows[i]].informed <= s->rows[rows[i]].asked)
            unanswered[n++] = rows[i];
        else
            others[m++] = rows[i];
    query(s, unanswered, n, now, true);
    if (m && path->quiet_until <= now) {
        int unknown = 0; /* those that were never asked about come first */
        tried = first_of(s, others, m);
        while (unknown < tried && s->rows[others[unknown]].asked == 0)
            unknown++;
        query(s, others, unknown, now, false);
        query(s, others + unknown, tried - unknown, now, true);
        if (s->silence)
            go_on(s);
        s->silence++;
        path->quiet_until = now + longer(path->timer.timeouts[0], s->silence);
    }
    for (int i = tried; i < m; i++)
        stream_set_deadline(s, &s->rows[others[i]], path->quiet_until);
}

/* What nothing has overtaken waits in a queue while results come over its path, and a little longer. */
static void asking_expired(Stream *s, const int32_t *rows, int count, double now) {
    int32_t due[count + 1], silent[count + 1], of_path[count + 1];
    int n = 0, silents = 0;
    for (int i = 0; i < count; i++) {
        Row *row = &s->rows[rows[i]];
        const Path *path = &s->paths[row->path];
        bool quiet = row->overtaken == 0 && row->pressed == 0 && row->tries == 0;
        double until = quiet ? path->heard_at + (path->timer.timeouts[0] - path->timer.srtt) : now;
        stream_set_deadline(s, row, until);
        if (until > now)
            continue;
        if (quiet)
            silent[silents++] = rows[i];
        else
            due[n++] = rows[i];
    }
    if (n + silents == 0)
        return;
    s->counters.timeouts++;
    s->timed_out_at = now;
    overdue(s, due, n, now);
    for (int32_t path = 0; path < s->paths_count; path++) {
        n = 0;
        for (int i = 0; i < silents; i++)
            if (s->rows[silent[i]].path == path)
                of_path[n++] = silent[i];
        in_silence(s, &s->paths[path], of_path, n, now);
    }
}

/* --- what a stream calls */

/* Results of these rows have come, and are counted in `overtaken`; `once` where no worker sent a packet again. */
void recovery_settled(Stream *s, const int32_t *rows, const bool *once, int count, double now) {
    if (s->recovery == ASKING)
        asking_settled(s, rows, once, count, now);
    else
        resending_settled(s, now);
}

/* The deadlines of these rows are over; gives them new ones. */
void recovery_expired(Stream *s, const int32_t *rows, int count, double now) {
    if (s->recovery == ASKING)
        asking_expired(s, rows, count, now);
    else
        resending_expired(s, rows, count, now);
}

/* What the network says of these rows' chunks: that it lacks this worker's part, or only others'.

   `near`: it may be the next switch that says so, where others are behind it. How soon that answers tells too little of them. */
void recovery_answered(Stream *s, const int32_t *rows, const bool *lacking, int count, double now, bool near) {
    int32_t again[count + 1], others[count + 1];
    bool on_path[s->paths_count];
    int n = 0, m = 0;
    if (s->recovery != ASKING || !count)
        return;
    for (int i = 0; i < count; i++) {
        s->rows[rows[i]].informed = s->rows[rows[i]].asked + 1;
        if (lacking[i])
            again[n++] = rows[i];
        else
            others[m++] = rows[i];
    }
    if (m)
        wait_longer(s, others, m, now);
    if (!near)
        answers(s, rows, count, &s->by_status, now);
    if (!n)
        return;
    stream_retransmit(s, again, n, now, true);
    for (int i = 0; i < n; i++) { /* what was sent again urgently is asked about by the timeouts of what is urgent */
        Row *row = &s->rows[again[i]];
        double urgent = now + urgent_timeout(s, least(most(row->tries - 1, 0), MOST_BACKOFF));
        stream_set_deadline(s, row, fmin(row->deadline, urgent));
    }
    paths_of(s, again, n, on_path);
    follow(s, on_path, now);
}

/* The result of this row has come, behind one that left after it. */
void recovery_disordered(Stream *s, int32_t row, double now) {
    s->gap = (int32_t)least(2 * (int64_t)s->gap, most(s->count, GAP));
    s->ordered = 0;
    timer_needless(timer_of(s, row), now);
}

/* Results of these rows are lost, where packets keep their order. Elsewhere so many others have to come first, as for any row. */
void recovery_lost(Stream *s, const int32_t *rows, int count, double now) {
    if (s->recovery == ASKING && s->gap == GAP)
        overdue(s, rows, count, now);
}

/* Results that are not awaited have come over these paths. Where a worker only sends again, some of that was not lost. Where it
   asks, queries may cross their results; but a timer that never sees a round trip without a query is too short. */
void recovery_needless(Stream *s, const bool *on_path, double now) {
    for (int32_t i = 0; i < s->paths_count; i++) {
        Path *path = &s->paths[i];
        if (on_path[i] && (s->recovery != ASKING || now - path->sampled_at > UNSAMPLED * path->timer.timeouts[0]))
            timer_needless(&path->timer, now);
    }
}
