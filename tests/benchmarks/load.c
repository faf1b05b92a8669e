/* The load generator of the benchmarks: one thread, one poll loop, requests prepared beforehand.
 *
 *   load requests HOST PORT FILE CONNECTIONS DEPTH SECONDS
 *       Sends the frame in FILE over CONNECTIONS sockets, DEPTH unanswered ones each, and times every answer.
 *   load fill HOST PORT FILE CONNECTIONS DEPTH COUNT
 *       The same until COUNT of them are answered, no more: so many bytes, however fast the server.
 *   load fetch HOST PORT FILE OFFSET_AT PARTITIONS BYTES_MAX READERS
 *       READERS connections fetch all partitions, each from offset 0 to the end. FILE is a Fetch v4 frame of the
 *       partitions 0 to PARTITIONS - 1; the int64 at byte OFFSET_AT is the first one's fetch offset, the next stand
 *       16 bytes apart. Ends at an empty answer or after BYTES_MAX bytes.
 *   load wake HOST PORT FETCH_FILE OFFSET_AT PRODUCE_FILE START COUNT
 *       Parks a fetch at the end of a partition, produces one record over a second socket, and times until the parked
 *       fetch is answered; COUNT times, from offset START.
 *   load produce HOST PORT LIBRARY TOPIC PARTITIONS RECORD_BYTES SECONDS
 *       librdkafka (LIBRARY is its path, loaded as it is) produces to all partitions in rotation, acks=all, and waits
 *       until everything is acknowledged.
 *
 *   load touch BYTES
 *       Writes to so much memory once and gives it back: a virtual machine whose host takes back what is free pays for
 *       the first write to each page, several times what a server costs. Prints nothing.
 *
 * Prints one line of JSON: count, seconds, bytes, p50_us, p99_us, max_us, cpu_s (of the generator).
 */
#include "load.h"

#include <dlfcn.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { CONNECTIONS_MAX = 1024, DEPTH_MAX = 64, READERS_MAX = 64, PARTITIONS_MAX = 256 };

struct connection {
    int socket, sent_at, done_at;      /* ring indexes into started */
    double started[DEPTH_MAX];
    char head[4];
    size_t have, body_left;            /* bytes of the length prefix read; bytes of the body still to skip */
};

static void requests(char **a, long count_max) {
    size_t size;
    char *frame = load_file(a[2], &size), *scratch = malloc(1 << 20);
    int n = atoi(a[3]), depth = atoi(a[4]);
    double seconds = count_max ? 1e9 : atof(a[5]);
    if (n < 1 || n > CONNECTIONS_MAX || depth < 1 || depth > DEPTH_MAX || count_max < 0) die("bounds");
    struct connection *all = calloc(n, sizeof *all);
    struct pollfd *polls = calloc(n, sizeof *polls);
    char *burst = malloc(size * depth);
    for (int i = 0; i < depth; i++) memcpy(burst + i * size, frame, size);
    for (int i = 0; i < n; i++) polls[i] = (struct pollfd){.fd = all[i].socket = dial(a[0], atoi(a[1])), .events = POLLIN};
    double start = now_us(), end = start + seconds * 1e6;
    long left = count_max ? count_max : INT64_MAX;
    for (int i = 0; i < n; i++) {
        int first = left < depth ? (int)left : depth;
        for (int d = 0; d < depth; d++) all[i].started[d] = now_us();
        all[i].sent_at = first % depth;
        write_all(all[i].socket, burst, size * first), left -= first;
    }
    long count = 0;
    double now = start;
    while (count_max ? count < count_max : now < end) {
        if (poll(polls, n, 1000) < 0 && errno != EINTR) die("poll");
        for (int i = 0; i < n; i++) {
            if (!polls[i].revents) continue;
            struct connection *c = &all[i];
            ssize_t k = read(c->socket, scratch, 1 << 20);
            if (k <= 0) die("read (did the server close the connection?)");
            now = now_us();
            int answered = 0;
            for (ssize_t at = 0; at < k;) {
                if (c->have < 4) {
                    c->head[c->have++] = scratch[at++];
                    if (c->have == 4) c->body_left = be32(c->head);
                } else {
                    size_t step = c->body_left < (size_t)(k - at) ? c->body_left : (size_t)(k - at);
                    c->body_left -= step, at += step;
                }
                if (c->have == 4 && !c->body_left) {
                    sample(now - c->started[c->done_at]);
                    c->done_at = (c->done_at + 1) % depth;
                    c->have = 0, answered++, count++;
                }
            }
            if (answered > left) answered = (int)left;
            left -= answered;
            for (int d = 0; d < answered; d++) {
                c->started[c->sent_at] = now;
                c->sent_at = (c->sent_at + 1) % depth;
            }
            if (answered) write_all(c->socket, burst, size * answered);
        }
    }
    report(count, (now_us() - start) / 1e6, (double)count * size);
}

/* Reads one answer whole; returns its body without the length prefix. */
static char *answer(int s, size_t *size) {
    static char *body;
    static size_t room;
    char head[4];
    read_all(s, head, 4);
    *size = be32(head);
    if (*size > room) body = realloc(body, room = *size * 2);
    read_all(s, body, *size);
    return body;
}

/* Fetch v4 answer of one topic: correlation, throttle, topics, name, partitions; of each partition index, error, HW, LSO,
 * aborted, records. Moves `offsets` on, by partition; returns the bytes of records. */
static uint64_t move_on(char *body, uint64_t *offsets, int partitions) {
    uint64_t bytes = 0;
    char *p = body + 4 + 4 + 4;
    p += 2 + ((uint8_t)p[0] << 8 | (uint8_t)p[1]);
    int count = be32(p);
    p += 4;
    while (count--) {
        int index = be32(p), error = (int16_t)((uint8_t)p[4] << 8 | (uint8_t)p[5]);
        /* 3, 6: a topic just made, whose leader is on its way: nothing yet, ask again */
        if (error && error != 3 && error != 6) { fprintf(stderr, "load: fetch answered error %d\n", error); exit(1); }
        if (index < 0 || index >= partitions) { fprintf(stderr, "load: nobody asked for partition %d\n", index); exit(1); }
        p += 4 + 2 + 8 + 8;
        int32_t aborted = be32(p);
        p += 4 + (aborted > 0 ? aborted * 16 : 0);
        int32_t size = be32(p);
        p += 4;
        if (size <= 0) continue;
        bytes += size;
        char *end = p + size;
        while (end - p >= 61 && end - p >= 12 + (int64_t)be32(p + 8)) {
            offsets[index] = be64(p) + be32(p + 23) + 1;
            p += 12 + be32(p + 8);
        }
        p = end;
    }
    return bytes;
}

/* One reader per connection, each a process: together they keep the server busy, which one that waits cannot. */
static void fetch(char **a) {
    size_t size, got;
    char *frame = load_file(a[2], &size);
    long at = atol(a[3]);
    double limit = atof(a[5]), start = now_us(), total = 0;
    int partitions = atoi(a[4]), readers = atoi(a[6]), results[2];
    if (partitions < 1 || partitions > PARTITIONS_MAX || readers < 1 || readers > READERS_MAX || pipe(results)) die("bounds");
    for (int r = 0; r < readers; r++) {
        pid_t child = fork();
        if (child < 0) die("fork");
        if (child) continue;
        int s = dial(a[0], atoi(a[1]));
        uint64_t offsets[PARTITIONS_MAX] = {0}, bytes;
        double sums[2] = {0, 0};
        do {
            for (int i = 0; i < partitions; i++) put64(frame + at + 16 * i, offsets[i]);
            write_all(s, frame, size);
            bytes = move_on(answer(s, &got), offsets, partitions);
            sums[0]++, sums[1] += bytes;
        } while (bytes && sums[1] < limit);
        write_all(results[1], (char *)sums, sizeof sums);
        _exit(0);
    }
    close(results[1]);
    long count = 0;
    for (int r = 0; r < readers; r++) {
        double sums[2];
        read_all(results[0], (char *)sums, sizeof sums);
        count += sums[0], total += sums[1];
    }
    double seconds = (now_us() - start) / 1e6;
    while (wait(0) > 0) {}
    report(count, seconds, total);
}

static void wake(char **a) {
    size_t fetch_size, produce_size, got;
    char *fetch_frame = load_file(a[2], &fetch_size), *produce_frame = load_file(a[4], &produce_size);
    long at = atol(a[3]);
    uint64_t offset = strtoull(a[5], 0, 10), bytes;
    long count = atol(a[6]);
    int reader = dial(a[0], atoi(a[1])), writer = dial(a[0], atoi(a[1]));
    struct timespec pause = {.tv_nsec = 2000000};   /* lets the fetch park before the record comes */
    double start = now_us();
    for (long i = 0; i < count; i++) {
        put64(fetch_frame + at, offset);
        write_all(reader, fetch_frame, fetch_size);
        nanosleep(&pause, 0);
        double t = now_us();
        write_all(writer, produce_frame, produce_size);
        for (bytes = 0; !bytes;) {
            if (!(bytes = move_on(answer(reader, &got), &offset, 1))) {
                put64(fetch_frame + at, offset);
                write_all(reader, fetch_frame, fetch_size);
            }
        }
        sample(now_us() - t);
        answer(writer, &got);
    }
    report(count, (now_us() - start) / 1e6, 0);
}

/* What is used of librdkafka, by the names of its C API; its headers are not needed. */
enum { PRODUCER = 0, BLOCK = 4, CONF_OK = 0 };
static void *library;
static void *symbol(const char *name) {
    void *found = dlsym(library, name);
    if (!found) { fprintf(stderr, "load: %s\n", dlerror()); exit(1); }
    return found;
}

static long failures;
static void delivered(void *rk, const int *message, void *opaque) {   /* a message begins with its error code */
    (void)rk, (void)opaque;
    if (*message) failures++;
}

static void produce(char **a) {
    if (!(library = dlopen(a[2], RTLD_NOW))) { fprintf(stderr, "load: %s\n", dlerror()); exit(1); }
    void *(*conf_new)(void) = symbol("rd_kafka_conf_new");
    int (*conf_set)(void *, const char *, const char *, char *, size_t) = symbol("rd_kafka_conf_set");
    void (*on_delivery)(void *, void (*)(void *, const int *, void *)) = symbol("rd_kafka_conf_set_dr_msg_cb");
    void *(*new)(int, void *, char *, size_t) = symbol("rd_kafka_new");
    void *(*topic_new)(void *, const char *, void *) = symbol("rd_kafka_topic_new");
    int (*send)(void *, int32_t, int, void *, size_t, const void *, size_t, void *) = symbol("rd_kafka_produce");
    int (*serve)(void *, int) = symbol("rd_kafka_poll");
    int (*flush)(void *, int) = symbol("rd_kafka_flush");

    char error[512] = "", server[300];
    snprintf(server, sizeof server, "%s:%s", a[0], a[1]);
    const char *settings[][2] = {
        {"bootstrap.servers", server}, {"acks", "all"}, {"linger.ms", "5"}, {"batch.size", "1000000"},
        {"queue.buffering.max.messages", "200000"}, {"delivery.report.only.error", "true"}, {"log_level", "0"},
    };
    void *conf = conf_new();
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (conf_set(conf, settings[i][0], settings[i][1], error, sizeof error) != CONF_OK) die(error);
    on_delivery(conf, delivered);
    void *rk = new(PRODUCER, conf, error, sizeof error);
    if (!rk) die(error);
    void *topic = topic_new(rk, a[3], 0);
    int partitions = atoi(a[4]);
    size_t size = strtoull(a[5], 0, 10);
    char *value = malloc(size);
    memset(value, 'x', size);
    double start = now_us(), end = start + atof(a[6]) * 1e6;
    long count = 0;
    while (now_us() < end) {
        for (int i = 0; i < 1000; i++, count++)   /* the value outlives all messages: nothing is copied */
            if (send(topic, count % partitions, BLOCK, value, size, 0, 0, 0)) failures++;
        serve(rk, 0);
    }
    if (flush(rk, 60000) || failures) { fprintf(stderr, "load: %ld records failed\n", failures); exit(1); }
    report(count, (now_us() - start) / 1e6, (double)count * size);
}

static void touch(size_t size) {
    char *memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("mmap");
    for (size_t at = 0; at < size; at += 4096) memory[at] = 1;
}

int main(int argc, char **argv) {
    samples = malloc(sizeof *samples * SAMPLES_MAX);
    if (argc == 8 && !strcmp(argv[1], "requests")) requests(argv + 2, 0);
    else if (argc == 8 && !strcmp(argv[1], "fill")) requests(argv + 2, atol(argv[7]));
    else if (argc == 9 && !strcmp(argv[1], "fetch")) fetch(argv + 2);
    else if (argc == 9 && !strcmp(argv[1], "wake")) wake(argv + 2);
    else if (argc == 9 && !strcmp(argv[1], "produce")) produce(argv + 2);
    else if (argc == 3 && !strcmp(argv[1], "touch")) touch(strtoull(argv[2], 0, 10));
    else { fprintf(stderr, "load: see the comment at the top of load.c\n"); return 2; }
    return 0;
}
