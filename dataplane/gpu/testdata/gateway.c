/* gateway: a warp for machines without a GPU, which has the gateway kernel's code work on
 * the quads of a chunk, one after another. */
#define _GNU_SOURCE /* memmem */
#define VERIFY_SOURCES 0 /* as gateway.cu */
#include "shim.h"

#include "../kernel/secure.h"
#include "lanes.h"

static uint8_t *base;
static struct mailbox mailbox;
static struct vault vault;
static struct stage stage;
static struct desk desk;
static uint32_t encrypt[AES_ENCRYPT_WORDS], decrypt[AES_DECRYPT_WORDS], inverse[AES_INVERSE_WORDS];
static uint32_t quad, packets;

static void team_join(uint32_t n)
{
	(void)n;
	meet("team_join");
}

static uint32_t team_swap(uint32_t v, uint32_t distance, uint32_t n)
{
	(void)n;
	return exchange(v, running ^ distance, "team_swap");
}

static uint32_t team_next(uint32_t v, uint32_t n, uint32_t circle, uint32_t of)
{
	(void)of;
	return exchange(v, running / circle * circle + (running + n) % circle, "team_next");
}

static void lane(void)
{
	const struct memory *s = (const void *)base;
	const struct frame *in = (const void *)(base + s->in);
	struct aes_tables t = aes_tables_of(encrypt, decrypt, inverse, running);
	struct word w = {0, 0};

	if (is_packet(quad, packets)) {
		struct frame f = in[packet_of(quad)];
		w = (struct word){f.addr, f.len | (uint32_t)f.port << 16};
	}
	work_with_jobs(&mailbox, &vault, &stage, &t, &desk, base + s->out, 0, quad, w, packets);
	end_lane();
}

/* Tells whether the stage has anything of the keys of the quad's jobs. Lines of zeros, which test vectors
 * have, do not differ from what was overwritten. */
static int keeps_keys(uint32_t n)
{
	static const uint8_t zeros[LINE];

	for (uint32_t i = quad * QUAD_FRAMES; i < n && i < (quad + 1) * QUAD_FRAMES; i++) {
		const struct job *j = &vault.jobs[i];
		if ((j->flags & JOB_KIND) < JOB_SEAL)
			continue;
		const struct esp_key *k = &vault.keys[j->key & JOB_NUMBER];
		for (uint32_t line = 0; line < k->lines; line++)
			if (memcmp(esp_part(k, line), zeros, LINE) && memmem(stage.words, 4 * stage.size, esp_part(k, line), LINE))
				return 1;
	}
	return 0;
}

static void work_on(uint32_t n)
{
	packets = n;
	for (quad = 0; quad * QUAD_FRAMES < n; quad++) {
		memset(stage.words, 0xa5, 4 * stage.size);
		run_lanes(lane);
		if (keeps_keys(n)) {
			fprintf(stderr, "gateway: a key is left on the stage\n");
			exit(1);
		}
	}
}

/* So many bytes where memory ends, so that nothing can be touched behind them. */
static void *end_with_memory(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
	uint8_t *mem = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED || mprotect(mem + room, page, PROT_NONE) < 0) {
		fprintf(stderr, "gateway: map memory for a stage of %zu bytes: %s\n", bytes, strerror(errno));
		return NULL;
	}
	return mem + room - bytes;
}

int main(int argc, char **argv)
{
	if (!(base = map_shared()) || argc != 2)
		return 1;
	const struct memory *s = (const void *)base;
	stage.size = (uint32_t)atoi(argv[1]);
	if (!(stage.words = end_with_memory(4 * stage.size)))
		return 1;
	for (uint32_t thread = 0; thread < 3; thread++) {
		aes_fill_encrypt(encrypt, thread, 3);
		aes_fill_decrypt(decrypt, inverse, thread, 3);
	}
	mailbox = (struct mailbox){.umem_bytes = (uint32_t)s->umem_bytes, .umem = base + s->umem, .tables = tables_in(base)};
	vault = (struct vault){(const void *)(base + s->keys), (const void *)(base + s->jobs), 0, stage.size};
	for (uint32_t n; fread(&n, sizeof n, 1, stdin) == 1; ) {
		work_on(n);
		if (fwrite(&n, sizeof n, 1, stdout) != 1 || fflush(stdout) != 0)
			return 1;
	}
	return 0;
}
