/* The members of a consumer group, raw: one thread, one poll loop, a connection for each member.
 *
 *   groups cycle HOST PORT PID PROTOCOL GROUP TOPIC PARTITIONS MEMBERS BEAT_MS CYCLES
 *       All members join at once; when each has its share of TOPIC, one leaves; when the others have all of it again,
 *       the next cycle begins, with another group. Prints a line of JSON for each cycle: ms, and ms of CPU, the server's
 *       and our own. MEMBERS is 2 or more: of a member alone, who leaves, nobody takes the share.
 *   groups beats HOST PORT PID PROTOCOL GROUP TOPIC PARTITIONS MEMBERS SECONDS
 *       Once all have their share, each sends a heartbeat as soon as the last one is answered.
 *   groups first HOST PORT PID PROTOCOL GROUP TOPIC PARTITIONS RETRY_MS
 *       One member, from FindCoordinator on, which is asked again after RETRY_MS while there is no coordinator.
 *
 * PROTOCOL is classic or consumer (KIP-848). Members behave as clients do: a classic one joins with the id that it is
 * given, the leader assigns, and whoever hears of a rebalance in a heartbeat joins again; a consumer says at once what
 * it has given up or taken. The next heartbeat is BEAT_MS after the last answer.
 *
 * CPU of a join is counted until everybody was answered what he says to have then, which is behind the join itself: of
 * a small group none of that is served when the last member has its share, of a large one nearly all.
 *
 * `net` is the time in which the server owed somebody an answer that brings the group on. A JoinGroup that waits for a
 * member whose heartbeat is not due is owed nothing, and a heartbeat counts if it was told something new: so what the
 * protocol itself waits is not in it.
 */
#include "load.h"

#include <sys/epoll.h>

enum { MEMBERS_MAX = 4000, PARTITIONS_MAX = 10000, ID_MAX = 256, RETRY_MS = 10, HELD_MS = 200, PATIENCE_MS = 120000 };
enum { JOIN = 11, BEAT = 12, LEAVE = 13, SYNC = 14, FIND = 10, CONSUMER_BEAT = 68 };
enum { LOADING = 14, NOT_AVAILABLE = 15, NOT_COORDINATOR = 16, REBALANCE = 27, ID_REQUIRED = 79 };
enum state { IDLE, NAMELESS, JOINING, SYNCING, BEATING, LEAVING, GONE };

struct member {
    int socket, generation, count;     /* count: of partitions */
    enum state state;
    int stable, told;                  /* has its share; has said so (consumer) */
    int telling;                       /* what it says has not been answered yet */
    char id[ID_MAX];
    double due_us, sent_us;
    char *in;
    size_t have, room;
    uint16_t *parts;
};

static const char *host, *group, *topic;
static char group_name[ID_MAX];
static int port, consumer, partitions, members, beat_ms, poller;
static clockid_t server_clock;
static struct member *all;
static int synced;                     /* the latest generation whose leader has assigned */
static int generations, measured;
static uint8_t *taken_by;              /* how many members have a partition, by partition */
static char topic_id[16];
static int departing;
static double now;
static int requests;

/* -- what the server owes: spans of time, which may overlap */

struct span { double from, to; };
static struct span *spans;
static size_t owed, spans_room;

static void owe(double from) {
    if (owed == spans_room) spans = realloc(spans, sizeof *spans * (spans_room = spans_room * 2 + 1024));
    spans[owed++] = (struct span){from, now};
}

static int by_start(const void *a, const void *b) {
    double x = ((struct span *)a)->from, y = ((struct span *)b)->from;
    return (x > y) - (x < y);
}

static double net_ms(double start) {
    double end = start, sum = 0;
    qsort(spans, owed, sizeof *spans, by_start);
    for (size_t k = 0; k < owed; k++) {
        double from = spans[k].from > end ? spans[k].from : end;
        if (spans[k].to > from) sum += spans[k].to - from, end = spans[k].to;
    }
    return sum / 1e3;
}

/* -- requests */

static char out[4 << 20];
static size_t at;
static void i8(int v) { out[at++] = v; }
static void i16(int v) { i8(v >> 8), i8(v); }
static void i32(int v) { i16(v >> 16), i16(v); }
static void raw(const char *p, size_t n) { memcpy(out + at, p, n), at += n; }
static void str(const char *s) { if (s) i16(strlen(s)), raw(s, strlen(s)); else i16(-1); }
static void varint(unsigned v) { for (; v > 127; v >>= 7) i8(v | 128); i8(v); }
static void compact(const char *s) { if (s) varint(strlen(s) + 1), raw(s, strlen(s)); else varint(0); }

static void begin(int key, int version, int flexible) {
    at = 4;
    i16(key), i16(version), i32(1), str("bench");
    if (flexible) varint(0);
}

static void end(struct member *m, enum state state) {
    size_t size = at;
    at = 0, i32(size - 4);
    m->state = state, m->sent_us = now_us(), requests++;
    write_all(m->socket, out, size);
}

static void share(int from, int to) {   /* a ConsumerProtocolAssignment, with its length */
    i32(2 + 4 + 2 + strlen(topic) + 4 + 4 * (to - from) + 4);
    i16(0), i32(1), str(topic), i32(to - from);
    for (int p = from; p < to; p++) i32(p);
    i32(-1);
}

static void join(struct member *m) {
    begin(JOIN, 5, 0);
    str(group_name), i32(30000), i32(60000), str(m->id), str(0), str("consumer"), i32(1), str("range");
    i32(2 + 4 + 2 + strlen(topic) + 4), i16(0), i32(1), str(topic), i32(-1);
    m->stable = 0;
    end(m, *m->id ? JOINING : NAMELESS);
}

static void consumer_beat(struct member *m, int epoch, int first) {
    begin(CONSUMER_BEAT, 1, 1);
    compact(group_name), compact(m->id), i32(epoch), compact(0), compact(0), i32(first ? 60000 : -1);
    if (first) varint(2), compact(topic); else varint(0);
    compact(0), compact(0);
    if (first) varint(1);               /* no partitions */
    else if (m->told) varint(0);        /* what it was */
    else if (!m->count) varint(1);
    else {
        varint(2), raw(topic_id, 16), varint(m->count + 1);
        for (int k = 0; k < m->count; k++) i32(m->parts[k]);
        varint(0);
    }
    varint(0);
    m->telling = !first && !m->told;
    m->told = 1;
    end(m, epoch < 0 ? LEAVING : BEATING);
}

static void beat(struct member *m) {
    if (consumer) { consumer_beat(m, m->generation, !m->generation); return; }
    if (!m->generation) { join(m); return; }
    begin(BEAT, 3, 0);
    str(group_name), i32(m->generation), str(m->id), str(0);
    end(m, BEATING);
}

static void leave(struct member *m) {
    if (consumer) { consumer_beat(m, -1, 0); return; }
    begin(LEAVE, 3, 0);
    str(group_name), i32(1), str(m->id), str(0);
    end(m, LEAVING);
}

static void come(struct member *m) { if (consumer) beat(m); else join(m); }

/* -- answers */

struct reader { char *p, *end; };
static char *get(struct reader *r, size_t n) { char *p = r->p; if (n > (size_t)(r->end - p)) errno = 0, die("a short answer"); r->p += n; return p; }
static int g8(struct reader *r) { return *(int8_t *)get(r, 1); }
static int g16(struct reader *r) { uint8_t *p = (uint8_t *)get(r, 2); return (int16_t)(p[0] << 8 | p[1]); }
static int g32(struct reader *r) { return (int32_t)be32(get(r, 4)); }
static unsigned gvar(struct reader *r) { unsigned v = 0, s = 0, b; do b = g8(r) & 255, v |= (b & 127) << s, s += 7; while (b & 128); return v; }
static void copy(char *to, const char *from, int n) { if (n >= ID_MAX) errno = 0, die("a long id"); memcpy(to, from, n), to[n] = 0; }
static void gstr(struct reader *r, char *to) { int n = g16(r); char *p = get(r, n > 0 ? n : 0); if (to) copy(to, p, n > 0 ? n : 0); }
static void fail(const char *what, int error) { fprintf(stderr, "groups: %s answered error %d\n", what, error); exit(1); }

static void give_up(struct member *m) {
    for (int k = 0; k < m->count; k++) taken_by[m->parts[k]]--;
    m->count = 0;
}

static void take(struct member *m, int count, struct reader *r) {
    give_up(m);
    if (count < 0 || count > partitions) errno = 0, die("an assignment");
    m->parts = realloc(m->parts, sizeof *m->parts * (count + 1));
    for (; m->count < count; m->count++) {
        int p = g32(r);
        if (p < 0 || p >= partitions) errno = 0, die("a partition that is none");
        m->parts[m->count] = p, taken_by[p]++;
    }
}

static void rest(struct member *m, int ms) { m->state = IDLE, m->due_us = now + ms * 1e3; }

static int is_coming(int error) { return error == LOADING || error == NOT_AVAILABLE || error == NOT_COORDINATOR; }
static void join_again(struct member *m) { if (departing) rest(m, 0); else join(m); }

static void joined(struct member *m, struct reader *r) {
    char leader[ID_MAX];
    g32(r);
    int error = g16(r), generation = g32(r);
    gstr(r, 0), gstr(r, leader), gstr(r, m->id);
    if (error == ID_REQUIRED) { join(m); return; }
    if (error == REBALANCE) { join_again(m); return; }
    if (is_coming(error)) { rest(m, RETRY_MS); return; }
    if (error) fail("JoinGroup", error);
    if (generation > generations) generations = generation;
    m->generation = generation;
    begin(SYNC, 3, 0);
    str(group_name), i32(generation), str(m->id), str(0);
    int count = g32(r);
    i32(count);
    for (int k = 0; k < count; k++) {
        int size = g16(r);
        char *id = get(r, size);
        g16(r), get(r, g32(r));          /* no instance id; its subscription */
        i16(size), raw(id, size);
        share((long)k * partitions / count, (long)(k + 1) * partitions / count);
    }
    if (count) synced = generation;
    end(m, SYNCING);
}

static void assigned(struct member *m, struct reader *r) {
    g32(r);
    int error = g16(r);
    if (error == REBALANCE) { join_again(m); return; }
    if (error) fail("SyncGroup", error);
    g32(r), g16(r);                      /* length, version */
    int topics = g32(r);
    if (topics) gstr(r, 0);
    take(m, topics ? g32(r) : 0, r);
    m->stable = 1;
    rest(m, beat_ms);
}

static void beaten(struct member *m, struct reader *r) {
    if (measured) sample(now - m->sent_us);
    g32(r);
    int error = g16(r);
    if (error == REBALANCE) { owe(m->sent_us), join_again(m); return; }
    if (error) fail("Heartbeat", error);
    rest(m, beat_ms);
}

static void consumer_beaten(struct member *m, struct reader *r) {
    if (measured) sample(now - m->sent_us);
    m->telling = 0;
    g8(r), g32(r);                       /* tags of the header, throttle time */
    int error = g16(r);
    if (is_coming(error)) { rest(m, RETRY_MS); return; }
    if (error) fail("ConsumerGroupHeartbeat", error);
    unsigned size = gvar(r);
    get(r, size ? size - 1 : 0);
    size = gvar(r);
    if (size > 1) copy(m->id, get(r, size - 1), size - 1);
    int before = m->generation;
    m->generation = g32(r), m->stable = 1;
    if (m->generation > generations) generations = m->generation;
    g32(r);
    if (m->generation != before) owe(m->sent_us);
    if (g8(r) < 0) { rest(m, beat_ms); return; }   /* its assignment is what it was */
    owe(m->sent_us);
    if (gvar(r) > 1) {
        memcpy(topic_id, get(r, 16), 16);
        unsigned count = gvar(r);
        take(m, (int)count - 1, r);
    } else give_up(m);
    m->told = 0;
    beat(m);
}

static void answered(struct member *m) {
    struct reader r = {m->in + 8, m->in + m->have};
    switch (m->state) {
    case NAMELESS: case JOINING: joined(m, &r); break;
    case SYNCING: assigned(m, &r); break;
    case BEATING: if (consumer) consumer_beaten(m, &r); else beaten(m, &r); break;
    case LEAVING: give_up(m), m->state = GONE; break;
    default: errno = 0, die("an answer to nothing");
    }
}

static void receive(struct member *m) {
    if (m->room - m->have < 4096) m->in = realloc(m->in, m->room = m->room * 2 + 8192);
    ssize_t k = read(m->socket, m->in + m->have, m->room - m->have);
    if (k <= 0) die("read (did the server close the connection?)");
    m->have += k;
    if (m->have < 4 || m->have < 4 + (size_t)be32(m->in)) return;
    answered(m);
    m->have = 0;
}

/* -- time */

static int is_owed(void) {
    int idle = 0, waiting = 0;
    for (struct member *m = all; m < all + members; m++) {
        if (m->state == NAMELESS || m->state == LEAVING) return 1;
        if (m->state == BEATING && !m->generation) return 1;   /* a consumer comes */
        if (m->state == SYNCING && m->generation <= synced) return 1;
        idle += m->state == IDLE || m->state == BEATING;
        waiting += m->state == JOINING || m->state == SYNCING;
    }
    return waiting && !idle;
}

static void turn(void) {
    struct epoll_event events[256];
    double next = now + 1e6;
    for (struct member *m = all; m < all + members; m++) {
        if (m->state != IDLE) continue;
        if (m->due_us <= now) beat(m);
        else if (m->due_us < next) next = m->due_us;
    }
    int is_waiting = is_owed();
    int count = epoll_wait(poller, events, 256, (int)((next - now) / 1e3) + 1);
    if (count < 0 && errno != EINTR) die("epoll_wait");
    double before = now;
    now = now_us();
    if (is_waiting) owe(before);
    for (int k = 0; k < count; k++) receive(events[k].data.ptr);
}

static int settled(int above, int present) {
    int there = 0, sum = 0, generation = -1;
    for (struct member *m = all; m < all + members; m++) {
        if (m->state == GONE) continue;
        if (!m->stable || !m->told || (m->state != IDLE && m->state != BEATING) || m->generation <= above) return 0;
        if ((generation >= 0 && m->generation != generation) || m->count < partitions / present) return 0;
        generation = m->generation;
        there++, sum += m->count;
    }
    if (there != present || sum != partitions) return 0;
    for (int p = 0; p < partitions; p++) if (taken_by[p] != 1) errno = 0, die("a partition that two members have");
    return 1;
}

static double server_cpu_ms(void) {
    struct timespec t;
    if (clock_gettime(server_clock, &t)) die("the server's clock");
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void until_settled(int above, int present) {
    double patience = now + PATIENCE_MS * 1e3;
    while (!settled(above, present)) {
        turn();
        if (now > patience) errno = 0, die("the group does not come to rest");
    }
}

/* -- what is played */

static int find(struct member *m) {
    struct reader r;
    begin(FIND, 2, 0);
    str(group_name), i8(0);
    end(m, IDLE);
    char head[4], body[4096];
    read_all(m->socket, head, 4);
    if (be32(head) > sizeof body) errno = 0, die("a long answer");
    read_all(m->socket, body, be32(head));
    r = (struct reader){body + 4, body + be32(head)};
    g32(&r);
    return g16(&r);
}

static int found(struct member *m, int retry_ms) {
    struct timespec pause = {.tv_nsec = retry_ms * 1000000L};
    for (int asked = 1;; asked++) {
        int error = find(m);
        if (!error) return asked;
        if (error != NOT_AVAILABLE) fail("FindCoordinator", error);
        nanosleep(&pause, 0);
    }
}

static void arrive(int cycle) {         /* connections, and a coordinator */
    snprintf(group_name, sizeof group_name, "%s-%d", group, cycle);
    synced = generations = 0;
    memset(taken_by, 0, partitions);
    for (int k = 0; k < members; k++) {
        struct member *m = &all[k];
        char *in = m->in;
        size_t room = m->room;
        uint16_t *parts = m->parts;
        *m = (struct member){.socket = dial(host, port), .state = GONE, .told = 1, .in = in, .room = room, .parts = parts};
        if (consumer) snprintf(m->id, ID_MAX, "raw-member-%d-%d", cycle, k);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = m};
        if (epoll_ctl(poller, EPOLL_CTL_ADD, m->socket, &event)) die("epoll_ctl");
    }
}

static void depart(void) {
    departing = 1;
    for (int left = members; left;) {
        left = 0;
        for (struct member *m = all; m < all + members; m++) {
            if (m->state == IDLE) leave(m);
            left += m->state != GONE;
        }
        if (left) turn();
    }
    departing = 0;
    for (struct member *m = all; m < all + members; m++) close(m->socket);
}

static void find_all(void) {           /* over each connection: all have been accepted, and served once */
    for (int k = 0; k < members; k++) found(&all[k], RETRY_MS);
}

static void all_come(void) {
    for (struct member *m = all; m < all + members; m++) come(m);
    until_settled(0, members);
}

static void until_served(void) {        /* what the join has brought is done: all have said what they have, and were heard */
    for (struct member *m = all; m < all + members; m++) while (m->telling) turn();
}

static void hold(void) {                /* as long as it takes for everything that was begun to end */
    for (double end_us = now + HELD_MS * 1e3; now < end_us;) turn();
}

static void cycle(int number) {
    arrive(number);
    find_all();
    now = now_us(), owed = 0, requests = 0;
    double start = now, cpu = server_cpu_ms(), own = cpu_s();
    all_come();
    printf("{\"join_ms\": %.3f, \"join_net_ms\": %.3f, ", (now - start) / 1e3, net_ms(start));
    until_served();
    printf("\"join_cpu_ms\": %.3f, \"join_own_ms\": %.3f, ", server_cpu_ms() - cpu, (cpu_s() - own) * 1e3);
    printf("\"join_requests\": %d, ", requests);
    printf("\"generations\": %d, ", generations);
    hold();
    struct member *last = &all[members - 1];
    while (last->state != IDLE) turn();
    int before = generations;
    start = now, owed = 0, cpu = server_cpu_ms(), own = cpu_s();
    leave(last);
    until_settled(before, members - 1);
    printf("\"leave_ms\": %.3f, \"leave_net_ms\": %.3f, \"leave_cpu_ms\": %.3f, ", (now - start) / 1e3, net_ms(start), server_cpu_ms() - cpu);
    printf("\"leave_own_ms\": %.3f}\n", (cpu_s() - own) * 1e3);
    fflush(stdout);
    hold();
    depart();
}

static void beats(double seconds) {
    arrive(0);
    find_all();
    beat_ms = 50;
    now = now_us();
    all_come();
    hold();
    beat_ms = 0, measured = 1;
    double start = now, cpu = server_cpu_ms(), mine = cpu_s();
    while (now < start + seconds * 1e6) turn();
    double elapsed = (now - start) / 1e6;
    cpu = server_cpu_ms() - cpu, mine = cpu_s() - mine;
    qsort(samples, taken, sizeof *samples, by_size);
    printf("{\"count\": %ld, \"seconds\": %.4f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"server_cpu_ms\": %.3f, \"cpu_s\": %.4f}\n",
           taken, elapsed, samples[taken / 2], samples[(long)(taken * 0.99)], cpu, mine);
}

static void first(int retry_ms) {
    arrive(0);
    now = now_us();
    double start = now, cpu = server_cpu_ms();
    int asked = found(&all[0], retry_ms);
    now = now_us();
    double there = now;
    all_come();
    printf("{\"elapsed_ms\": %.3f, \"found_ms\": %.3f, \"asked\": %d, \"server_cpu_ms\": %.3f}\n", (now - start) / 1e3, (there - start) / 1e3, asked, server_cpu_ms() - cpu);
    depart();
}

int main(int argc, char **a) {
    const char *mode = argc > 1 ? a[1] : "";
    int is_cycle = !strcmp(mode, "cycle") && argc == 12, is_beats = !strcmp(mode, "beats") && argc == 11;
    if (!is_cycle && !is_beats && !(!strcmp(mode, "first") && argc == 10)) {
        fprintf(stderr, "groups: see the comment at the top of groups.c\n");
        return 2;
    }
    host = a[2], port = atoi(a[3]), consumer = !strcmp(a[5], "consumer"), group = a[6], topic = a[7], partitions = atoi(a[8]);
    members = is_cycle || is_beats ? atoi(a[9]) : 1;
    if (members < 1 || members > MEMBERS_MAX || partitions < 1 || partitions > PARTITIONS_MAX) die("bounds");
    if (is_cycle && members < 2) {
        fprintf(stderr, "groups: a cycle takes 2 members or more: when the only one leaves, nobody is left to settle\n");
        return 2;
    }
    if (clock_getcpuclockid(atoi(a[4]), &server_clock)) die("no such process");
    samples = malloc(sizeof *samples * SAMPLES_MAX);
    all = calloc(members, sizeof *all);
    taken_by = calloc(partitions, 1);
    if ((poller = epoll_create1(0)) < 0) die("epoll_create1");
    if (is_beats) beats(atof(a[10]));
    else if (!is_cycle) first(atoi(a[9]));
    else {
        beat_ms = atoi(a[10]);
        for (int k = 0; k < atoi(a[11]); k++) cycle(k);
    }
    return 0;
}
