// peer.c looks addresses up in DPDK's tables, rte_fib for IPv4 (DIR-24-8) and
// rte_fib6 for IPv6 (a trie), as a benchmark tells it to on its standard input.
//
//	peer [EAL options] -- 4|6 ROUTES ORDER TBL8 ADDRESSES...
//
// ROUTES is a file of struct route, ORDER one of uint32_t, the numbers of routes
// in the order in which `update` takes them, TBL8 the number of second-level
// groups to make room for. Each file of ADDRESSES holds uint32_t for IPv4 and 16
// bytes in network order for IPv6. Integers are in the machine's own order.
//
// Loading the routes is answered, and so is each command, by one line: "ok" and
// figures, or "error" and why.
//
//	(start)                         ok BYTES NANOSECONDS
//	look VARIANT FILE BATCH NS      ok LOOKUPS NANOSECONDS
//	answer VARIANT FILE PATH        ok; next hops are written to PATH as uint32_t
//	update NS                       ok UPDATES NANOSECONDS
//
// VARIANT is one of the names below, FILE the number of a file of addresses. The
// program ends with its input.

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_memory.h>

enum {
	STEP = 1 << 16, // lookups between two looks at the clock
	MAX_BATCH = 4096,
	MAX_FILES = 16,
};

struct route {
	uint8_t addr[16]; // IPv4: a uint32_t in the first four
	uint32_t bits, next_hop;
};

struct file {
	const uint8_t *data;
	size_t size;
};

static const struct variant {
	const char *name;
	int v6, type;
} variants[] = {
	{"scalar-macro", 0, RTE_FIB_LOOKUP_DIR24_8_SCALAR_MACRO},
	{"scalar-inline", 0, RTE_FIB_LOOKUP_DIR24_8_SCALAR_INLINE},
	{"scalar-uni", 0, RTE_FIB_LOOKUP_DIR24_8_SCALAR_UNI},
	{"avx512", 0, RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512},
	{"scalar", 1, RTE_FIB6_LOOKUP_TRIE_SCALAR},
	{"avx512", 1, RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512},
};

static FILE *out; // what was standard output; EAL's own messages go to the other
static int v6;
static struct rte_fib *fib4;
static struct rte_fib6 *fib6;
static struct file routes, order, addresses[MAX_FILES];
static int num_files;
static volatile uint64_t sink; // so that no result goes unused

__attribute__((format(printf, 1, 2))) static void reply(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vfprintf(out, format, args);
	va_end(args);
	fputc('\n', out);
	fflush(out);
}

__attribute__((format(printf, 1, 2))) static _Noreturn void die(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fprintf(out, "error ");
	vfprintf(out, format, args);
	va_end(args);
	fputc('\n', out);
	fflush(out);
	_exit(1);
}

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * UINT64_C(1000000000) + t.tv_nsec;
}

static size_t heap_bytes(void)
{
	struct rte_malloc_socket_stats stats;
	size_t sum = 0;
	for (unsigned i = 0; i < rte_socket_count(); i++)
		if (rte_malloc_get_socket_stats(rte_socket_id_by_idx(i), &stats) == 0)
			sum += stats.heap_allocsz_bytes;
	return sum;
}

static struct file map(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size == 0)
		die("open %s: %s", path, strerror(errno));
	void *data = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	if (data == MAP_FAILED)
		die("map %s: %s", path, strerror(errno));
	close(fd);
	return (struct file){data, st.st_size};
}

static size_t addr_size(void) { return v6 ? 16 : 4; }

static int page_is_empty(const uint64_t *page, size_t size)
{
	for (size_t i = 0; i < size / sizeof *page; i++)
		if (page[i])
			return 0;
	return 1;
}

// use_huge_pages moves memory that DPDK took from small pages to transparent huge
// pages, which the other contenders have, too.
static int use_huge_pages(const struct rte_memseg_list *list, void *unused)
{
	size_t page = 4096;
	int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	uint8_t *from = list->base_va, *copy = mmap(NULL, list->len, prot, flags, -1, 0);
	(void)unused;
	if (copy == MAP_FAILED)
		die("copy memory: %s", strerror(errno));
	for (size_t i = 0; i < list->len; i += page)
		if (!page_is_empty((uint64_t *)(from + i), page))
			memcpy(copy + i, from + i, page);
	if (mmap(from, list->len, prot, flags | MAP_FIXED, -1, 0) == MAP_FAILED)
		die("map memory: %s", strerror(errno));
	madvise(from, list->len, MADV_HUGEPAGE);
	for (size_t i = 0; i < list->len; i += page)
		if (!page_is_empty((uint64_t *)(copy + i), page))
			memcpy(from + i, copy + i, page);
	munmap(copy, list->len);
	return 0;
}

// What the two libraries have in common.

static void create(size_t max_routes, uint32_t tbl8)
{
	int socket = rte_socket_id();
	if (v6) {
		struct rte_fib6_conf conf = {
			.type = RTE_FIB6_TRIE, .max_routes = max_routes,
			.trie = {.nh_sz = RTE_FIB6_TRIE_4B, .num_tbl8 = tbl8},
		};
		fib6 = rte_fib6_create("peer", socket, &conf);
	} else {
		struct rte_fib_conf conf = {
			.type = RTE_FIB_DIR24_8, .max_routes = max_routes,
			.dir24_8 = {.nh_sz = RTE_FIB_DIR24_8_4B, .num_tbl8 = tbl8},
		};
		fib4 = rte_fib_create("peer", socket, &conf);
	}
	if (!fib4 && !fib6)
		die("create a table for %zu routes with %" PRIu32 " groups: %s", max_routes, tbl8, rte_strerror(rte_errno));
}

static int add(const struct route *r, uint32_t next_hop)
{
	uint32_t addr;
	if (v6)
		return rte_fib6_add(fib6, r->addr, r->bits, next_hop);
	memcpy(&addr, r->addr, sizeof addr);
	return rte_fib_add(fib4, addr, r->bits, next_hop);
}

static int del(const struct route *r)
{
	uint32_t addr;
	if (v6)
		return rte_fib6_delete(fib6, r->addr, r->bits);
	memcpy(&addr, r->addr, sizeof addr);
	return rte_fib_delete(fib4, addr, r->bits);
}

static inline void lookup(const uint8_t *addrs, uint64_t *next_hops, unsigned n)
{
	if (v6)
		rte_fib6_lookup_bulk(fib6, (uint8_t(*)[16])addrs, next_hops, n);
	else
		rte_fib_lookup_bulk(fib4, (uint32_t *)addrs, next_hops, n);
}

// use_variant reports whether the machine can run the variant, and answers if not.
static int use_variant(const char *name)
{
	for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
		const struct variant *v = &variants[i];
		if (v->v6 != v6 || strcmp(v->name, name) != 0)
			continue;
		int err = v6 ? rte_fib6_select_lookup(fib6, v->type) : rte_fib_select_lookup(fib4, v->type);
		if (err)
			reply("error this machine or this DPDK cannot look up by %s", name);
		return !err;
	}
	reply("error there is no lookup by %s", name);
	return 0;
}

// The commands.

static void load(uint32_t tbl8)
{
	const struct route *r = (const struct route *)routes.data;
	size_t n = routes.size / sizeof *r, before = heap_bytes();
	create(n, tbl8);
	uint64_t start = now();
	for (size_t i = 0; i < n; i++) {
		int err = add(&r[i], r[i].next_hop);
		if (err)
			die("add route %zu of %zu: %s", i + 1, n, rte_strerror(-err));
	}
	uint64_t elapsed = now() - start;
	reply("ok %zu %" PRIu64, heap_bytes() - before, elapsed);
}

// look reads new addresses for every batch, and puts the results where those of
// the last batch were. The caller sees to it that the file has STEP addresses.
static void look(const struct file *f, unsigned batch, uint64_t ns)
{
	uint64_t next_hops[MAX_BATCH], sum = 0, lookups = 0, elapsed, start = now();
	size_t i = 0, n = f->size / addr_size(), step = STEP / batch * batch;
	do {
		if (i + step > n)
			i = 0;
		for (size_t end = i + step; i < end; i += batch) {
			lookup(f->data + i * addr_size(), next_hops, batch);
			sum += next_hops[batch - 1];
		}
		lookups += step;
	} while ((elapsed = now() - start) < ns);
	sink = sum;
	reply("ok %" PRIu64 " %" PRIu64, lookups, elapsed);
}

static void answer(const struct file *f, const char *path)
{
	enum { BATCH = 64 };
	uint64_t next_hops[BATCH];
	uint32_t narrow[BATCH];
	FILE *to = fopen(path, "wb");
	if (!to) {
		reply("error write %s: %s", path, strerror(errno));
		return;
	}
	for (size_t i = 0, n = f->size / addr_size(); i < n; i += BATCH) {
		unsigned k = n - i < BATCH ? n - i : BATCH;
		lookup(f->data + i * addr_size(), next_hops, k);
		for (unsigned j = 0; j < k; j++)
			narrow[j] = next_hops[j];
		fwrite(narrow, sizeof *narrow, k, to);
	}
	int bad = ferror(to);
	if (fclose(to) || bad)
		reply("error write %s: %s", path, strerror(errno));
	else
		reply("ok");
}

// update takes route after route away, puts it back with another next hop, and
// replaces that by its own, so that the table ends as it began.
static void update(uint64_t ns)
{
	static size_t at;
	const struct route *all = (const struct route *)routes.data;
	const uint32_t *number = (const uint32_t *)order.data;
	uint64_t updates = 0, elapsed, start = now();
	do {
		for (int i = 0; i < 64; i++) {
			const struct route *r = &all[number[at++ % (order.size / sizeof *number)]];
			int err = del(r);
			if (!err)
				err = add(r, r->next_hop + 1);
			if (!err)
				err = add(r, r->next_hop);
			if (err) {
				reply("error update: %s", rte_strerror(-err));
				return;
			}
			updates += 3;
		}
	} while ((elapsed = now() - start) < ns);
	reply("ok %" PRIu64 " %" PRIu64, updates, elapsed);
}

int main(int argc, char **argv)
{
	out = fdopen(dup(STDOUT_FILENO), "w");
	dup2(STDERR_FILENO, STDOUT_FILENO);
	int used = rte_eal_init(argc, argv);
	if (used < 0)
		die("start DPDK: %s", rte_strerror(rte_errno));
	argc -= used;
	argv += used;
	if (!rte_eal_has_hugepages())
		rte_memseg_list_walk(use_huge_pages, NULL);
	if (argc < 6 || argc - 5 > MAX_FILES)
		die("usage: peer [EAL options] -- 4|6 ROUTES ORDER TBL8 ADDRESSES...");
	v6 = argv[1][0] == '6';
	routes = map(argv[2]);
	order = map(argv[3]);
	for (int i = 5; i < argc; i++)
		addresses[num_files++] = map(argv[i]);
	load(strtoul(argv[4], NULL, 10));

	char line[4096], variant[32], path[3072];
	unsigned file, batch;
	uint64_t ns;
	while (fgets(line, sizeof line, stdin)) {
		if (sscanf(line, "look %31s %u %u %" SCNu64, variant, &file, &batch, &ns) == 4 &&
		    file < (unsigned)num_files && batch > 0 && batch <= MAX_BATCH && addresses[file].size / addr_size() >= STEP) {
			if (use_variant(variant))
				look(&addresses[file], batch, ns);
		} else if (sscanf(line, "answer %31s %u %3071[^\n]", variant, &file, path) == 3 && file < (unsigned)num_files) {
			if (use_variant(variant))
				answer(&addresses[file], path);
		} else if (sscanf(line, "update %" SCNu64, &ns) == 1) {
			update(ns);
		} else {
			reply("error cannot do: %s", strtok(line, "\n"));
		}
	}
	return 0;
}
