/* Frames and results of a chunk, as package batch defines them. Included by decide.h and
 * reverse_path.h. */
#ifndef WARPROUTE_FRAME_H
#define WARPROUTE_FRAME_H

#include "device.h"
#include "layout.h"

/* A frame in host memory: len bytes from the Ethernet header at addr. */
struct frame {
	uint32_t addr;
	uint16_t len, port; /* receiving port; at MAX_PORTS and above with router flags */
};

/* The result for a frame. If it is forwarded, addr and len are those of the frame to send; if its
 * neighbor is unresolved, addr is the adjacency. */
struct result {
	uint32_t addr;
	uint16_t len, verdict;
};

CHECK_FRAME_LAYOUT;
CHECK_RESULT_LAYOUT;

/* A verdict is an action in the upper 4 bits, and a port or a drop reason. */
DEVICE uint32_t verdict(uint32_t action, uint32_t argument) { return action << 12 | argument; }

#endif
