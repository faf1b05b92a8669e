/* What the load generators share: time, sockets, numbers as the wire has them, and a line of JSON at the end. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLES_MAX = 8000000 };

static void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, errno ? strerror(errno) : "unexpected answer");
    exit(1);
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static double cpu_s(void) {
    struct rusage u;
    double sum = 0;
    for (int who = RUSAGE_CHILDREN; who <= RUSAGE_SELF; who++) {
        getrusage(who, &u);
        sum += u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
    }
    return sum;
}

static int dial(const char *host, int port) {
    int one = 1, s = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (s < 0 || inet_pton(AF_INET, host, &a.sin_addr) != 1) die("address");
    if (connect(s, (struct sockaddr *)&a, sizeof a)) die("connect");
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return s;
}

static char *load_file(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    if (!f) die(path);
    fseek(f, 0, SEEK_END);
    *size = ftell(f);
    rewind(f);
    char *data = malloc(*size);
    if (fread(data, 1, *size, f) != *size) die(path);
    fclose(f);
    return data;
}

static uint32_t be32(const char *p) { uint32_t v; memcpy(&v, p, 4); return ntohl(v); }
static uint64_t be64(const char *p) { return ((uint64_t)be32(p) << 32) | be32(p + 4); }
static void put64(char *p, uint64_t v) { for (int i = 7; i >= 0; i--, v >>= 8) p[i] = v & 255; }

static void write_all(int s, const char *p, size_t n) {
    while (n) {
        ssize_t k = write(s, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) die("write");
        p += k, n -= k;
    }
}

static void read_all(int s, char *p, size_t n) {
    while (n) {
        ssize_t k = read(s, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) die("read (did the server close the connection?)");
        p += k, n -= k;
    }
}

static float *samples;
static long taken;
static int by_size(const void *a, const void *b) { float x = *(float *)a, y = *(float *)b; return (x > y) - (x < y); }
static void sample(double us) { if (taken < SAMPLES_MAX) samples[taken++] = us; }

static void report(long count, double seconds, double bytes) {
    qsort(samples, taken, sizeof *samples, by_size);
    double p50 = taken ? samples[taken / 2] : 0, p99 = taken ? samples[(long)(taken * 0.99)] : 0;
    printf("{\"count\": %ld, \"seconds\": %.4f, \"bytes\": %.0f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f, \"cpu_s\": %.4f}\n",
           count, seconds, bytes, p50, p99, taken ? samples[taken - 1] : 0, cpu_s());
}
