/* Calls that bypass the C library, and a filter that knows only one calling convention.

     raw int80 OP PATH     as a 32-bit program makes calls: open, creat, truncate, unlink, rename,
                           chmod, mkdir, symlink, link
     raw x32 PATH          a third calling convention, which some kernels have
     raw uring             sets up an io_uring
     raw fault             a path in memory that never becomes readable: one thread waits forever
     raw memory PATH       paths at page boundaries: across two pages, before unmapped memory, ...

   The results, one number per call: an error is negative. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static char path[4096]; /* below 4 GiB: this is not linked to move */

static long call32(long number, long first, long second, long third) {
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(first), "c"(second), "d"(third)
                     : "memory", "r8", "r9", "r10", "r11");
    return (int)result;
}

static long as32(const char *op) {
    static char other[] = "other.txt";
    long at = (long)path;
    if (!strcmp(op, "open")) return call32(5, at, O_WRONLY | O_TRUNC, 0);
    if (!strcmp(op, "creat")) return call32(8, at, 0644, 0);
    if (!strcmp(op, "openat")) return call32(295, AT_FDCWD, at, O_WRONLY | O_TRUNC);
    if (!strcmp(op, "truncate")) return call32(92, at, 1, 0);
    if (!strcmp(op, "unlink")) return call32(10, at, 0, 0);
    if (!strcmp(op, "rename")) return call32(38, at, (long)other, 0);
    if (!strcmp(op, "chmod")) return call32(15, at, 0600, 0);
    if (!strcmp(op, "link")) return call32(9, at, (long)other, 0);
    return -1000;
}

static void *wait_for_ever(void *at) {
    syscall(SYS_open, at, O_WRONLY);
    return NULL;
}

static int fault(void) {
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register room = {.mode = UFFDIO_REGISTER_MODE_MISSING};
    long page = sysconf(_SC_PAGESIZE), fd = syscall(SYS_userfaultfd, O_CLOEXEC);
    pthread_t thread;
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0) return printf("%d\n", -errno), 0;
    char *at = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    room.range.start = (unsigned long)at;
    room.range.len = page;
    if (ioctl(fd, UFFDIO_REGISTER, &room) < 0) return printf("%d\n", -errno), 0;
    pthread_create(&thread, NULL, wait_for_ever, at);
    usleep(300000);
    printf("0\n");
    fflush(stdout);
    /* While that thread waits, and its path can never be read, other threads continue. */
    int served = open("served while waiting.txt", O_WRONLY | O_CREAT, 0644);
    printf("%d\n", served < 0 ? -errno : 0);
    fflush(stdout);
    _exit(0);
}

static void memory(const char *name) {
    long page = sysconf(_SC_PAGESIZE), length = strlen(name) + 1;
    char *at = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(at + 2 * page, page);
    char *places[] = {
        at + 2 * page - length,      /* ends with the last mapped byte */
        at + page - length / 2,      /* is in two pages */
        at + 2 * page - length + 1,  /* has no terminating zero */
        at + 2 * page,               /* is not mapped at all */
        (char *)1, NULL, (char *)-1, (char *)0xffff800000000000,
    };
    for (unsigned which = 0; which < sizeof places / sizeof *places; which++) {
        if (which < 2) strcpy(places[which], name);
        if (which == 2) memcpy(places[which], name, length - 1);
        long fd = syscall(SYS_open, places[which], O_WRONLY);
        printf("%d\n", fd < 0 ? -errno : 0);
        if (fd >= 0) close(fd);
    }
    mprotect(at, page, PROT_NONE);
    printf("%ld\n", syscall(SYS_open, at, O_WRONLY) < 0 ? -(long)errno : 0);
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    if (!strcmp(what, "int80") && count == 4) {
        strcpy(path, words[3]);
        printf("%ld\n", as32(words[2]));
    } else if (!strcmp(what, "x32") && count == 3) {
        long fd = syscall(0x40000000 + SYS_open, words[2], O_WRONLY | O_TRUNC);
        printf("%d\n", fd < 0 ? -errno : 0);
    } else if (!strcmp(what, "uring")) {
        char parameters[120] = {0};
        printf("%d\n", syscall(SYS_io_uring_setup, 4, parameters) < 0 ? -errno : 0);
    } else if (!strcmp(what, "fault")) {
        return fault();
    } else if (!strcmp(what, "memory") && count == 3) {
        memory(words[2]);
    } else {
        return 2;
    }
    return 0;
}
