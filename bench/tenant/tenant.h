/* Work of a constant amount that occupies all integer units of a GPU and no memory. Included by
 * tenant.cu and its fake driver. */
#ifndef WARPROUTE_TENANT_H
#define WARPROUTE_TENANT_H

#include "layout.h"

/* Iterates a linear congruential generator, which compilers cannot shorten. */
DEVICE uint32_t iterate(uint32_t iterations)
{
	uint32_t v = 0;

	PRAGMA_UNROLL_1
	for (uint32_t i = 0; i < iterations; i++)
		v = v * MULTIPLIER + INCREMENT;
	return v;
}

#endif
