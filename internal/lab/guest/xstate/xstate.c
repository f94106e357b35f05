/* Preloaded library for user-mode Linux on processors with large register sets, such as AMX.
 *
 * UML 6.1 saves 2,696 bytes of a process's XSAVE area. The host's kernel accepts only a whole area
 * (PTRACE_SETREGSET, NT_X86_XSTATE), which is larger with AMX, so that UML ends with its first process. Here
 * ptrace completes the area with the registers that the process has. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

static _Alignas(64) char area[1 << 16];

long ptrace(enum __ptrace_request request, ...)
{
	static long (*next)(enum __ptrace_request, ...);
	va_list args;

	va_start(args, request);
	long pid = va_arg(args, long);
	void *addr = va_arg(args, void *), *data = va_arg(args, void *);
	va_end(args);
	if (!next)
		next = (long (*)(enum __ptrace_request, ...))dlsym(RTLD_NEXT, "ptrace");
	if (request == PTRACE_SETREGSET && addr == (void *)NT_X86_XSTATE) {
		struct iovec *given = data, whole = {area, sizeof area};
		if (next(PTRACE_GETREGSET, pid, addr, &whole) == 0 && given->iov_len < whole.iov_len) {
			memcpy(area, given->iov_base, given->iov_len);
			return next(request, pid, addr, &whole);
		}
	}
	return next(request, pid, addr, data);
}
