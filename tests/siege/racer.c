/* Repeats one call while its arguments change.

     racer buffer OP COUNT         a thread alternates the path between free.txt and held.txt
     racer flags open COUNT        the path is held.txt; a thread changes the flags of an openat2
     racer PATH OP COUNT           the path stays; the caller changes where it leads
     racer flip LINK ONE TWO       alternates a link between two targets, until killed

   Writes to every file that it opens. Prints one line at the end: the numbers of calls that
   succeeded, were refused (EACCES) and failed otherwise. The exit code is 3 if held.txt or
   sub/held.txt was opened for writing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

static _Alignas(64) char path[4096];
static volatile uint32_t *changing = (uint32_t *)path;
static uint32_t one, two;
static volatile int over;
static struct open_how how;
static volatile uint64_t *flags = (uint64_t *)&how.flags;
static struct stat held[2];

static void *change_path(void *nothing) {
    while (!over) { *changing = one; *changing = two; }
    return nothing;
}

static void *change_flags(void *nothing) {
    while (!over) { *flags = O_RDONLY; *flags = O_WRONLY | O_TRUNC; }
    return nothing;
}

static void look(int fd) {
    struct stat found;
    if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY && fstat(fd, &found) == 0)
        for (int at = 0; at < 2; at++)
            if (found.st_ino == held[at].st_ino && found.st_dev == held[at].st_dev) exit(3);
}

static long opened(long fd) {
    if (fd < 0) return fd;
    look(fd);
    if (write(fd, "changed", 7) < 0 && errno != EBADF) perror("write");
    close(fd);
    return 0;
}

/* The call, by its number: the C library's own work before it might hide the race. */
static long call(const char *op) {
    static const struct timespec times[2] = {{1, 0}, {2, 0}};
    static struct open_how writing = {.flags = O_WRONLY | O_TRUNC};
    if (!strcmp(op, "open")) return opened(syscall(SYS_open, path, O_WRONLY));
    if (!strcmp(op, "openat")) return opened(syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_APPEND));
    if (!strcmp(op, "empty")) return opened(syscall(SYS_open, path, O_RDONLY | O_TRUNC));
    if (!strcmp(op, "make")) return opened(syscall(SYS_open, path, O_RDWR | O_CREAT | O_TRUNC, 0644));
    if (!strcmp(op, "creat")) return opened(syscall(SYS_creat, path, 0644));
    if (!strcmp(op, "openat2"))
        return opened(syscall(SYS_openat2, AT_FDCWD, path, &writing, sizeof writing));
    if (!strcmp(op, "truncate")) return syscall(SYS_truncate, path, 1);
    if (!strcmp(op, "chmod")) return syscall(SYS_chmod, path, 0600);
    if (!strcmp(op, "fchmodat")) return syscall(SYS_fchmodat, AT_FDCWD, path, 0640);
    if (!strcmp(op, "chown")) return syscall(SYS_chown, path, getuid(), getgid());
    if (!strcmp(op, "utimensat")) return syscall(SYS_utimensat, AT_FDCWD, path, times, 0);
    if (!strcmp(op, "setxattr")) return syscall(SYS_setxattr, path, "user.new", "x", 1, 0);
    if (!strcmp(op, "unlink")) return syscall(SYS_unlink, path);
    if (!strcmp(op, "rename from")) return syscall(SYS_rename, path, "moved");
    if (!strcmp(op, "rename to")) return syscall(SYS_rename, "source", path);
    if (!strcmp(op, "exchange"))
        return syscall(SYS_renameat2, AT_FDCWD, "source", AT_FDCWD, path, RENAME_EXCHANGE);
    if (!strcmp(op, "link")) {
        long result = syscall(SYS_link, path, "alias");
        if (result < 0) return result;
        return opened(open("alias", O_WRONLY | O_TRUNC));
    }
    fprintf(stderr, "no such call: %s\n", op);
    exit(2);
}

static void make(const char *name) {
    int fd = open(name, O_WRONLY | O_CREAT, 0644);
    if (fd >= 0) close(fd);
}

/* Restores what the last call may have removed. */
static void restore(const char *op, const char *free_name) {
    if (!strcmp(op, "unlink")) make(free_name);
    if (!strcmp(op, "rename to") || !strcmp(op, "exchange")) make("source");
    if (!strcmp(op, "link")) unlink("alias");
    if (!strcmp(op, "rename from") && access("moved", F_OK) == 0) {
        if (access(free_name, F_OK) != 0) rename("moved", free_name);
        else unlink("moved");
    }
}

static int flip(const char *link, const char *first, const char *second) {
    char beside[2][64];
    const char *targets[2] = {first, second};
    for (int at = 0; at < 2; at++) snprintf(beside[at], sizeof beside[at], "%s.%d", link, at);
    for (unsigned count = 0;; count++) {
        if (symlink(targets[count & 1], beside[count & 1]) < 0 && errno != EEXIST) return 1;
        if (rename(beside[count & 1], link) < 0) return 1;
    }
}

int main(int count, char **words) {
    if (count == 5 && !strcmp(words[1], "flip")) return flip(words[2], words[3], words[4]);
    if (count != 4) return 2;
    const char *mode = words[1], *op = words[2];
    const char *free_name = "free.txt";
    int is_buffer = !strcmp(mode, "buffer"), is_flags = !strcmp(mode, "flags");
    pthread_t thread;
    long done = 0, refused = 0, failed = 0;
    if (stat("held.txt", &held[0]) < 0 || stat("sub/held.txt", &held[1]) < 0) return 2;
    strcpy(path, is_buffer || is_flags ? "held.txt" : mode);
    if (strchr(path, '/')) free_name = "sub2/held.txt";
    memcpy(&one, "held", 4);
    memcpy(&two, "free", 4);
    restore(op, free_name);
    if (is_buffer) pthread_create(&thread, NULL, change_path, NULL);
    if (is_flags) pthread_create(&thread, NULL, change_flags, NULL);
    for (long left = atol(words[3]); left > 0; left--) {
        long result = is_flags ? opened(syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how))
                               : call(op);
        if (result >= 0) done++;
        else if (errno == EACCES) refused++;
        else failed++;
        restore(op, free_name);
    }
    over = 1;
    if (is_buffer || is_flags) pthread_join(thread, NULL);
    printf("%ld %ld %ld\n", done, refused, failed);
    return 0;
}
