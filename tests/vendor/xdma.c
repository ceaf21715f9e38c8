/* Stands in for AMD's XDMA driver in front of a program (LD_PRELOAD): HWGEN_XDMA_c2h_0 and _h2c_0 with the rules of its
   character devices, over the socket HWGEN_XDMA_SOCKET, whose packets are what TLAST ends. Transfers in which nothing moves
   fail after HWGEN_XDMA_MS with errno 512. Written from the driver's behaviour, not from its text. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ALIGNMENT = 64, TIMED_OUT = 512 };

static int c2h = -1, h2c = -1, whole_packets, reading, busy;
static unsigned char packet[16384];
static size_t have, taken;

static int socket_of(void) { return atoi(getenv("HWGEN_XDMA_SOCKET")); }

static int failed(int number) {
    errno = number;
    return -1;
}

static int opened(const char *path, int flags, mode_t mode) {
    int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
    const char *name = getenv("HWGEN_XDMA");
    const size_t size = name ? strlen(name) : 0;
    if (!name || strncmp(path, name, size)) return next(path, flags, mode);
    if (!strcmp(path + size, "_c2h_0")) {
        if (busy) return failed(EBUSY);
        busy = 1, whole_packets = (flags & O_TRUNC) != 0;
        return c2h = dup(socket_of());
    }
    if (!strcmp(path + size, "_h2c_0")) return h2c = dup(socket_of());
    return failed(ENOENT);
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = va_arg(rest, int);
    va_end(rest);
    return opened(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = va_arg(rest, int);
    va_end(rest);
    return opened(path, flags, mode);
}

/* 1: something is there; 0: nothing in time. */
static int waited(int descriptor, short what) {
    struct pollfd one = {descriptor, what, 0};
    return poll(&one, 1, atoi(getenv("HWGEN_XDMA_MS"))) > 0;
}

static ssize_t received(unsigned char *buffer, size_t count) {
    size_t done = 0;
    while (done < count) {
        if (taken == have) {
            if (!waited(c2h, POLLIN)) return failed(TIMED_OUT); /* what came is lost */
            const ssize_t got = recv(c2h, packet, sizeof packet, 0);
            if (got <= 0) return failed(EIO);
            have = (size_t)got, taken = 0;
        }
        const size_t part = have - taken < count - done ? have - taken : count - done;
        memcpy(buffer + done, packet + taken, part);
        done += part, taken += part;
        if (whole_packets && taken == have) {
            struct pollfd one = {c2h, POLLIN, 0};
            if (done % 3 || poll(&one, 1, 0) <= 0) break; /* descriptors ahead may hold the next packet, too */
        }
    }
    return (ssize_t)done;
}

ssize_t read(int descriptor, void *buffer, size_t count) {
    ssize_t (*next)(int, void *, size_t) = (ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
    if (descriptor < 0 || (descriptor != c2h && descriptor != h2c)) return next(descriptor, buffer, count);
    if (descriptor == h2c || !count || (uintptr_t)buffer % ALIGNMENT) return failed(EINVAL);
    reading = 1;
    const ssize_t found = received(buffer, count);
    reading = 0;
    if (c2h < 0) busy = 0;
    return found;
}

ssize_t write(int descriptor, const void *buffer, size_t count) {
    ssize_t (*next)(int, const void *, size_t) = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    if (descriptor < 0 || (descriptor != c2h && descriptor != h2c)) return next(descriptor, buffer, count);
    if (descriptor == c2h || !count || (uintptr_t)buffer % ALIGNMENT) return failed(EINVAL);
    if (!waited(h2c, POLLOUT)) return failed(TIMED_OUT);
    const ssize_t sent = send(h2c, buffer, count, MSG_NOSIGNAL);
    return sent < 0 ? failed(EIO) : sent;
}

int close(int descriptor) {
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "close");
    if (descriptor >= 0 && descriptor == c2h) c2h = -1, busy = reading;
    if (descriptor >= 0 && descriptor == h2c) h2c = -1;
    return next(descriptor);
}

/* The driver knows no waiting for its devices: they always seem ready. */
int select(int count, fd_set *in, fd_set *out, fd_set *other, struct timeval *timeout) {
    int (*next)(int, fd_set *, fd_set *, fd_set *, struct timeval *) =
        (int (*)(int, fd_set *, fd_set *, fd_set *, struct timeval *))dlsym(RTLD_NEXT, "select");
    if ((in && c2h >= 0 && FD_ISSET(c2h, in)) || (out && h2c >= 0 && FD_ISSET(h2c, out))) return 1;
    return next(count, in, out, other, timeout);
}
