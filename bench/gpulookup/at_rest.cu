/* The launched kernels for a table that nobody changes: its words are kept in the cache
 * of each multiprocessor, which does not learn of stores. The router cannot use
 * them, since a group that began another life may still be there as it was. */
#define AT_REST
#include "../../lookup/device/lookup.cu"
