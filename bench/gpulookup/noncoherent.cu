/* Launched lookup kernels for a table that does not change: loads use the non-coherent cache of
 * each multiprocessor. The router cannot use them, because the cache may hold the words of a reused
 * trie node. Launch shape as lookup.cu. */
#define NONCOHERENT
#include "../../lookup/device/lookup.cu"
