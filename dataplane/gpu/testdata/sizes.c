/* sizes: prints the bytes of a warp's scratch, of a gateway with its tile, and of the AES tables on a device. */
#include <stdio.h>

#include "../kernel/warp_batch.h"

#include "../../../ipsec/device/aes.h"

#define DEVICE_COPIES 32 /* AES_COPIES on a device */

int main(void)
{
	size_t words = AES_ENCRYPT_WORDS + AES_DECRYPT_WORDS + AES_INVERSE_WORDS;

	printf("%zu %zu\n", sizeof(struct warp_scratch) + (CHECK_REVERSE_PATH ? 0 : sizeof(struct tile)), words / AES_COPIES * DEVICE_COPIES * sizeof(uint32_t));
	return 0;
}
