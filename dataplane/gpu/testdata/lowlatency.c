/* lowlatency: one emulated warp that processes the batches of a tile with inlined headers as a
 * block of the resident kernel does. The tile header in the slot says which headers are inlined. */
#define HOT_ENTRIES 64 /* as forward.cu */
#include "shim.h"

/* Counts accesses to host memory byte by byte: on a GPU, each is a PCIe request. */
static uint32_t byte_accesses;
#define BYTE_ACCESS() byte_accesses++

#include "../kernel/lowlatency.h"
#include "lanes.h"

static struct mailbox mailbox;
static struct warp_scratch scratch;
static uint8_t *slot;
static uint32_t batch;

static void lane(void)
{
	struct desc_word w;
	const uint64_t *descriptors = (const uint64_t *)(slot + mailbox.descriptors);
	uint32_t seq = (uint32_t)*descriptors, lanes = WARP_SIZE;

	if (!accept_descriptors(load_descriptors(descriptors, batch, lanes), seq, &lanes, &w)) {
		fprintf(stderr, "lowlatency: batch %u is not of tile %u\n", batch, seq);
		exit(1);
	}
	uint32_t header = __shfl_sync(FULL_MASK, w.high, 0), format = header & (INLINE_HEADERS | INLINE_SHORT_HEADERS), completed = 0;
	struct tile tile = tile_of(&mailbox, slot, seq, header, batch);
	int active = has_packet(&tile), in_segments = __all_sync(FULL_MASK, !active || readable_in_segments(&tile, w.low));
	byte_accesses = 0;
	if (format) {
		struct prefetch p = prefetch_tables(&mailbox.tables, load32(mailbox.tables.generation));
		struct header_segments h = read_inline_headers(&mailbox, slot, batch, format);
		if (inline_headers_match(&h, format, seq, active)) {
			fill_hot_entries(&scratch, &p);
			fill_inline_headers(&scratch, &h, format);
			__syncwarp();
			completed = complete_inline(&mailbox, &tile, &scratch, p.s, w, active);
		}
	}
	if (!completed) {
		struct snapshot s = load_headers(&mailbox, &tile, &scratch, w, active);
		process_batch(&mailbox, &tile, &scratch, s, w, tile.umem + w.low, active, ACCESS_128);
		if (running == 0)
			host_store32((uint32_t *)slot + batch, seq);
	}
	__syncwarp();
	if (in_segments && byte_accesses > 0) {
		fprintf(stderr, "lowlatency: %u accesses byte by byte to headers that are readable in segments\n", byte_accesses);
		exit(1);
	}
	end_lane();
}

int main(int argc, char **argv)
{
	uint8_t *base = map_shared();
	if (!base || argc != 6)
		return 1;
	const struct memory *s = (const void *)base;
	slot = base + s->slot;
	struct worker_memory worker = {base + s->umem, s->umem_bytes};
	mailbox = (struct mailbox){
		.results = (uint32_t)atoi(argv[1]), .descriptors = (uint32_t)atoi(argv[2]), .headers = (uint32_t)atoi(argv[3]),
		.short_headers = (uint32_t)atoi(argv[4]), .completions = (uint32_t)atoi(argv[5]),
		.workers = &worker, .tables = tables_in(base),
	};
	for (uint32_t n; fread(&n, sizeof n, 1, stdin) == 1; ) {
		for (batch = 0; batch * BATCH_FRAMES < n; batch++)
			run_lanes(lane);
		if (fwrite(&n, sizeof n, 1, stdout) != 1 || fflush(stdout) != 0)
			return 1;
	}
	return 0;
}
