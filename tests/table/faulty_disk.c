/* A disk that can be watched, filled and broken: preloaded before libc, so that it also sees what SQLite does.

   disk_watch(root, log)   write down every change below `root` to the file `log`, in order (faulty_disk.py reads it)
   disk_room(bytes)        so many bytes more may be written below `root`; then ENOSPC, after a short write. -1: no end
   disk_break_sync(n)      the n-th sync from now on fails with EIO, once; 0: none

   Only the calls that Python and SQLite make are here; changes through mapped memory (SQLite's -shm) are not seen. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FD 4096
#define REAL(name) ((__typeof__(&name))real(#name))

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static size_t root_length = 0;
static int log_fd = -1;
static int64_t room = -1;
static int64_t syncs_left = 0;
static char below[MAX_FD]; /* whether a descriptor is of something below root */

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

static ssize_t real_write(int fd, const void *data, size_t n) { return REAL(write)(fd, data, n); }

static int is_below(const char *path) {
    return root_length && path && strncmp(path, root, root_length) == 0 &&
           (path[root_length] == '/' || path[root_length] == 0);
}

static int watched(int fd) { return root_length && fd >= 0 && fd < MAX_FD && below[fd]; }

/* One record: kind, descriptor, number, sizes of two strings of bytes, and these. */
static void note(char kind, int fd, int64_t number, const void *a, size_t n_a, const void *b, size_t n_b) {
    if (log_fd < 0) return;
    struct __attribute__((packed)) {
        char kind;
        int32_t fd;
        int64_t number;
        uint32_t n_a, n_b;
    } head = {kind, fd, number, (uint32_t)n_a, (uint32_t)n_b};
    char *whole = malloc(sizeof head + n_a + n_b);
    memcpy(whole, &head, sizeof head);
    if (n_a) memcpy(whole + sizeof head, a, n_a);
    if (n_b) memcpy(whole + sizeof head + n_a, b, n_b);
    size_t done = 0, size = sizeof head + n_a + n_b;
    while (done < size) {
        ssize_t n = real_write(log_fd, whole + done, size - done);
        if (n <= 0) abort();
        done += (size_t)n;
    }
    free(whole);
}

void disk_watch(const char *new_root, const char *log) {
    pthread_mutex_lock(&mutex);
    strncpy(root, new_root, PATH_MAX - 1);
    root_length = strlen(root);
    if (log_fd >= 0) close(log_fd);
    log_fd = log && *log ? REAL(open)(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644) : -1;
    pthread_mutex_unlock(&mutex);
}

void disk_room(int64_t bytes) { room = bytes; }

void disk_break_sync(int64_t n) { syncs_left = n; }

/* ---- opening and closing */

static int opened(int fd, const char *path, int flags) {
    if (fd < 0 || fd >= MAX_FD) return fd;
    below[fd] = (char)is_below(path);
    if (below[fd]) note('o', fd, (flags & O_TRUNC) != 0, path, strlen(path), NULL, 0);
    return fd;
}

static int64_t size_of(const char *path) {
    struct stat found;
    return stat(path, &found) == 0 && S_ISREG(found.st_mode) ? found.st_size : 0;
}

#define OPEN(name)                                                      \
    int name(const char *path, int flags, ...) {                        \
        mode_t mode = 0;                                                \
        if (flags & (O_CREAT | O_TMPFILE)) {                            \
            va_list rest;                                               \
            va_start(rest, flags);                                      \
            mode = va_arg(rest, mode_t);                                \
            va_end(rest);                                               \
        }                                                               \
        pthread_mutex_lock(&mutex);                                     \
        int64_t gone = is_below(path) && (flags & O_TRUNC) ? size_of(path) : 0; \
        int fd = opened(REAL(name)(path, flags, mode), path, flags);    \
        if (fd >= 0 && room >= 0) room += gone;                         \
        pthread_mutex_unlock(&mutex);                                   \
        return fd;                                                      \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                    \
    int name(int folder, const char *path, int flags, ...) {            \
        mode_t mode = 0;                                                \
        if (flags & (O_CREAT | O_TMPFILE)) {                            \
            va_list rest;                                               \
            va_start(rest, flags);                                      \
            mode = va_arg(rest, mode_t);                                \
            va_end(rest);                                               \
        }                                                               \
        pthread_mutex_lock(&mutex);                                     \
        int fd = opened(REAL(name)(folder, path, flags, mode), path, flags); \
        pthread_mutex_unlock(&mutex);                                   \
        return fd;                                                      \
    }
OPENAT(openat)
OPENAT(openat64)

int close(int fd) {
    if (fd >= 0 && fd < MAX_FD) below[fd] = 0;
    return REAL(close)(fd);
}

/* ---- writing */

/* How many of n bytes at `offset` there is room for; -1 with ENOSPC where there is none. */
static ssize_t fitting(int fd, int64_t offset, size_t n) {
    struct stat found;
    if (room < 0 || fstat(fd, &found)) return (ssize_t)n;
    int64_t growth = offset + (int64_t)n - found.st_size;
    if (growth <= room) return (ssize_t)n;
    int64_t fits = (int64_t)n - (growth - room);
    if (fits > 0) return (ssize_t)fits;
    errno = ENOSPC;
    return -1;
}

static ssize_t written(int fd, int64_t offset, const void *data, ssize_t n, int64_t before) {
    if (n > 0) {
        if (room >= 0 && offset + n > before) room -= offset + n - before;
        note('w', fd, offset, data, (size_t)n, NULL, 0);
    }
    return n;
}

static int64_t length(int fd) {
    struct stat found;
    return fstat(fd, &found) ? 0 : found.st_size;
}

ssize_t write(int fd, const void *data, size_t n) {
    if (!watched(fd)) return real_write(fd, data, n);
    pthread_mutex_lock(&mutex);
    int64_t before = length(fd);
    int64_t offset = fcntl(fd, F_GETFL) & O_APPEND ? before : lseek(fd, 0, SEEK_CUR);
    ssize_t done = fitting(fd, offset, n);
    if (done >= 0) done = written(fd, offset, data, real_write(fd, data, (size_t)done), before);
    pthread_mutex_unlock(&mutex);
    return done;
}

#define PWRITE(name, type)                                                                      \
    ssize_t name(int fd, const void *data, size_t n, type offset) {                             \
        if (!watched(fd)) return REAL(name)(fd, data, n, offset);                               \
        pthread_mutex_lock(&mutex);                                                             \
        int64_t before = length(fd);                                                            \
        ssize_t done = fitting(fd, offset, n);                                                  \
        if (done >= 0) done = written(fd, offset, data, REAL(name)(fd, data, (size_t)done, offset), before); \
        pthread_mutex_unlock(&mutex);                                                           \
        return done;                                                                            \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

static int cut(int failed, int fd, const char *path, int64_t size, int64_t before) {
    if (!failed) {
        if (room >= 0) room += before - size;
        note('t', fd, size, path, path ? strlen(path) : 0, NULL, 0);
    }
    return failed;
}

#define FTRUNCATE(name, type)                                           \
    int name(int fd, type size) {                                       \
        if (!watched(fd)) return REAL(name)(fd, size);                  \
        pthread_mutex_lock(&mutex);                                     \
        int64_t before = length(fd);                                    \
        int failed = cut(REAL(name)(fd, size), fd, NULL, size, before); \
        pthread_mutex_unlock(&mutex);                                   \
        return failed;                                                  \
    }
FTRUNCATE(ftruncate, off_t)
FTRUNCATE(ftruncate64, off64_t)

#define TRUNCATE(name, type)                                            \
    int name(const char *path, type size) {                             \
        if (!is_below(path)) return REAL(name)(path, size);             \
        pthread_mutex_lock(&mutex);                                     \
        int64_t before = size_of(path);                                 \
        int failed = cut(REAL(name)(path, size), -1, path, size, before); \
        pthread_mutex_unlock(&mutex);                                   \
        return failed;                                                  \
    }
TRUNCATE(truncate, off_t)
TRUNCATE(truncate64, off64_t)

int posix_fallocate(int fd, off_t offset, off_t n) { return watched(fd) ? EINVAL : REAL(posix_fallocate)(fd, offset, n); }

/* ---- syncing */

#define SYNC(name)                                                      \
    int name(int fd) {                                                  \
        if (!watched(fd)) return REAL(name)(fd);                        \
        pthread_mutex_lock(&mutex);                                     \
        int failed = 0;                                                 \
        if (syncs_left > 0 && --syncs_left == 0) {                      \
            errno = EIO;                                                \
            failed = -1;                                                \
        } else {                                                        \
            note('s', fd, 0, NULL, 0, NULL, 0);                         \
        }                                                               \
        pthread_mutex_unlock(&mutex);                                   \
        return failed;                                                  \
    }
SYNC(fsync)
SYNC(fdatasync)

/* ---- names */

static int named(int failed, char kind, const char *a, const char *b) {
    if (!failed && (is_below(a) || is_below(b))) note(kind, -1, 0, a, strlen(a), b, b ? strlen(b) : 0);
    return failed;
}

int rename(const char *old, const char *new) {
    pthread_mutex_lock(&mutex);
    int failed = named(REAL(rename)(old, new), 'r', old, new);
    pthread_mutex_unlock(&mutex);
    return failed;
}

int unlink(const char *path) {
    pthread_mutex_lock(&mutex);
    int64_t gone = is_below(path) ? size_of(path) : 0;
    int failed = named(REAL(unlink)(path), 'u', path, NULL);
    if (!failed && room >= 0) room += gone;
    pthread_mutex_unlock(&mutex);
    return failed;
}

int mkdir(const char *path, mode_t mode) {
    pthread_mutex_lock(&mutex);
    int failed = named(REAL(mkdir)(path, mode), 'm', path, NULL);
    pthread_mutex_unlock(&mutex);
    return failed;
}

int rmdir(const char *path) {
    pthread_mutex_lock(&mutex);
    int failed = named(REAL(rmdir)(path), 'u', path, NULL);
    pthread_mutex_unlock(&mutex);
    return failed;
}
