/* Wrapper of ptrace(2) for user-mode Linux before 6.13 on a CPU with AMX (LD_PRELOAD). User-mode Linux keeps 2696 bytes of a process's
 * registers: all except the tiles of AMX. The kernel of this machine accepts only the complete state, so this code adds the tiles as they
 * are in a new process.
 * Linux: arch/x86/kernel/fpu/regset.c, xstateregs_set(); Intel SDM volume 1, 13.4.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

enum { STATE = 0x202 /* NT_X86_XSTATE */, IN_USE = 512, TILES = 3 << 17, MOST = 65536 };

long ptrace(enum __ptrace_request request, ...)
{
    static long (*next)(int, ...);
    static char whole[MOST];
    struct iovec full = {whole, MOST}, *given;
    va_list words;
    va_start(words, request);
    long pid = va_arg(words, long);
    void *at = va_arg(words, void *), *data = va_arg(words, void *);
    va_end(words);
    if (!next)
        next = (long (*)(int, ...))dlsym(RTLD_NEXT, "ptrace");
    given = data;
    if (request != PTRACE_SETREGSET || (long)at != STATE || given->iov_len < IN_USE + 64 || given->iov_len >= MOST)
        return next(request, pid, at, data);
    if (next(PTRACE_GETREGSET, pid, at, &full) < 0)
        return -1;
    if (full.iov_len <= given->iov_len)
        return next(request, pid, at, data);
    unsigned long in_use;
    memset(whole + given->iov_len, 0, full.iov_len - given->iov_len);
    memcpy(whole, given->iov_base, given->iov_len);
    memcpy(&in_use, whole + IN_USE, sizeof in_use);
    in_use &= ~(unsigned long)TILES;
    memcpy(whole + IN_USE, &in_use, sizeof in_use);
    return next(request, pid, at, &full);
}
